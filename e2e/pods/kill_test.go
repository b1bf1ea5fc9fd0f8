package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// kill ends a process of a pod as the kernel would, and returns where it was and
// what its number was.
func (l *lab) kill(t *testing.T, process string) (box *node.Box, pid string) {
	t.Helper()
	box = l.nodeOf(t, process)
	pid, err := box.Script(t.Context(), `pid=$(pgrep -ox "$NAME"); kill -9 "$pid"; echo "$pid"`, "NAME="+process)
	require.NoError(t, err)
	return box, strings.TrimSpace(pid)
}

// succeeded waits until a process that was killed has a successor that answers.
func (l *lab) succeeded(t *testing.T, box *node.Box, process, pid string, answers func(context.Context) error) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, process+" to come back", func(ctx context.Context) error {
		now, err := box.Output(ctx, "pgrep", "-ox", process)
		if err == nil && strings.TrimSpace(now) == pid {
			err = errors.New("it is still the old one")
		}
		if err != nil {
			return err
		}
		return answers(ctx)
	}))
}

// killed kills a process and waits for its successor. It returns how long that
// took.
func (l *lab) killed(t *testing.T, process string, answers func(context.Context) error) time.Duration {
	t.Helper()
	box, pid := l.kill(t, process)
	start := time.Now()
	l.succeeded(t, box, process, pid, answers)
	took := time.Since(start)
	l.progress.Say("%s was killed and answers again after %.1fs", process, took.Seconds())
	return took
}

// reaches asks the proxy for a name: the answer is the server's name, or how it
// came to none.
func (l *lab) reaches(vm *node.VM, sni, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := vm.Output(ctx, l.standin, "tls", proxyIP+":6443", sni)
		if err == nil && strings.TrimSpace(got) != want {
			err = fmt.Errorf("landed on %q", got)
		}
		return err
	}
}

func (l *lab) resolves(vm *node.VM, name, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := vm.Output(ctx, "dig", "+short", "+time=1", "+tries=1", "@"+dnsIP, name, "A")
		if err == nil && strings.TrimSpace(got) != want {
			err = fmt.Errorf("%s is %q", name, got)
		}
		return err
	}
}

// checkKills ends every process of the data plane once while a connection is
// open (behaviours C5, E11). Another VM asks for leases: a client that starts
// takes its own address off for a moment.
func (l *lab) checkKills(t *testing.T, a, other *node.VM) {
	before, err := other.Boot(t.Context())
	require.NoError(t, err)
	connection := l.hold(t, a, "api."+domainA)
	l.killed(t, "xds-manager", l.reaches(a, "api."+domainA, l.a+"/api"))
	l.killed(t, "coredns", l.resolves(a, "api."+domainA, proxyIP))
	l.killed(t, "dhcpd", func(ctx context.Context) error {
		lease, err := other.Boot(ctx)
		if err == nil && lease["ip"] != before["ip"] {
			err = fmt.Errorf("the lease is %v, it was %v", lease, before)
		}
		return err
	})
	require.NoError(t, connection.lives(), "a connection must outlive the manager")
	l.killed(t, "envoy", l.reaches(a, "api."+domainA, l.a+"/api"))
}

// checkNoAPI restarts the whole proxy, DNS and DHCP while there is no API
// server (behaviours E11, C5, D7).
func (l *lab) checkNoAPI(t *testing.T, vm *node.VM) {
	l.StopAPI()
	l.progress.Say("the API server is stopped")
	l.checkRestarts(t, vm, vm)
	l.startAPI(t)
}

// checkRestarts kills all of the data plane at once and waits until each part
// serves again.
func (l *lab) checkRestarts(t *testing.T, vm, client *node.VM) {
	t.Helper()
	parts := []struct {
		what, process string
		answers       func(context.Context) error
	}{
		{"the proxy's manager", "xds-manager", func(context.Context) error { return nil }},
		{"the proxy", "envoy", l.reaches(vm, "api."+domainA, l.a+"/api")},
		{"DNS", "coredns", l.resolves(vm, "api."+domainA, proxyIP)},
		{"DHCP", "dhcpd", func(ctx context.Context) error { _, err := client.Boot(ctx); return err }},
	}
	boxes, pids := make([]*node.Box, len(parts)), make([]string, len(parts))
	for i, part := range parts {
		boxes[i], pids[i] = l.kill(t, part.process)
	}
	for i, part := range parts {
		l.succeeded(t, boxes[i], part.process, pids[i], part.answers)
		l.progress.Say("%s serves without an API server", part.what)
	}
}

// startAPI ends an outage of the API server. Its nodes come back one by one, each
// when its kubelet tries again, and until then pods may be taken off them.
func (l *lab) startAPI(t *testing.T) {
	t.Helper()
	require.NoError(t, l.StartAPI(t.Context()))
	for i := range l.Nodes {
		require.NoError(t, l.WaitNode(t.Context(), i+1))
	}
	l.whole(t)
}

// whole waits until there is one pod of each component, Ready and here to stay.
func (l *lab) whole(t *testing.T) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, "one pod of each component", func(ctx context.Context) error {
		out, err := l.Kubectl(ctx, "get", "pods", "-n", l.namespace, "-l", "app.kubernetes.io/managed-by=oooi-operator", "--sort-by=.metadata.name", "-o",
			`jsonpath={range .items[*]}{.metadata.labels.app\.kubernetes\.io/component}{.metadata.deletionTimestamp} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if err == nil && out != "dhcp True\ndns True\nproxy True\n" {
			err = fmt.Errorf("they are %q", out)
		}
		return err
	}))
}

// back waits until the operator has seen all of it. It waits for the API server
// rather than end, so the length of the outage does not count.
func (l *lab) back(t *testing.T) {
	t.Helper()
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
}

// operatorPID is the operator's process.
func (l *lab) operatorPID(t *testing.T) string {
	t.Helper()
	out, err := l.nodeOf(t, "operator").Script(t.Context(), "pgrep -x operator")
	require.NoError(t, err)
	return out
}

// checkOutage keeps the API server away for longer than a lease, and restarts all
// of the data plane meanwhile: who is known stays known, who is new gets an
// address of the block that was set aside, and an intruder finds no more open than
// ever (behaviours B5, C5, D7, E11).
func (l *lab) checkOutage(t *testing.T, vm, other, intruder *node.VM) {
	before, err := vm.Boot(t.Context())
	require.NoError(t, err)
	l.setLeaseTime(t, vm, time.Minute)
	stop, err := vm.Stay()
	require.NoError(t, err)
	known := renewals(t, vm, 0)
	operator := l.operatorPID(t)
	l.StopAPI()
	l.progress.Say("the API server is stopped for longer than a lease")
	l.checkRestarts(t, vm, other)
	l.checkScan(t, intruder)
	// They come every 30 s: the third from now on lies beyond the lease that the API server saw.
	renewals(t, vm, known+3)
	lease, err := l.stranger(t, "stranger", "02:00:5e:10:00:99").Lease()
	require.NoError(t, err)
	require.NotEqual(t, before["ip"], lease["ip"])
	l.startAPI(t)
	l.back(t)
	require.Equal(t, operator, l.operatorPID(t), "it has waited, not ended")
	stop()
	history, err := vm.History()
	require.NoError(t, err)
	require.Equal(t, "bound "+before["ip"], history[0])
	for _, renewal := range history[1:] {
		require.Equal(t, "renew "+before["ip"], renewal)
	}
	l.setLeaseTime(t, vm, 10*time.Minute)
	l.progress.Say("renewed %d times without an API server, and a stranger got %s", len(history)-1, lease["ip"])
}

// renewals waits until a client that stays has renewed that often, and returns how
// often it has.
func renewals(t *testing.T, vm *node.VM, count int) int {
	t.Helper()
	var history []string
	require.NoError(t, node.Wait(t.Context(), 2*patience, fmt.Sprintf("%d renewals", count), func(context.Context) (err error) {
		history, err = vm.History()
		if err == nil && len(history) <= count {
			err = fmt.Errorf("so far %v", history)
		}
		return err
	}))
	return len(history) - 1
}

// setLeaseTime changes the Infra and waits until a VM is told.
func (l *lab) setLeaseTime(t *testing.T, vm *node.VM, leaseTime time.Duration) {
	t.Helper()
	_, err := l.Kubectl(t.Context(), "patch", "-n", "clusters", "infra/tenant-vlan100", "--type=merge", "-p",
		`{"spec":{"infraComponents":{"dhcp":{"leaseTime":"`+leaseTime.String()+`"}}}}`)
	require.NoError(t, err)
	require.NoError(t, node.Wait(t.Context(), patience, "the new lease time", func(ctx context.Context) error {
		lease, err := vm.Boot(ctx)
		if err == nil && lease["lease"] != fmt.Sprint(int(leaseTime.Seconds())) {
			err = fmt.Errorf("the lease is %v", lease)
		}
		return err
	}))
}
