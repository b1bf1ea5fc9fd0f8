package pods

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// takenUpWithin is the time that case C44 gives: for the operator to be Ready, and
// for kinds that come to be taken up.
const takenUpWithin = time.Minute

// checkOperatorStarts looks at how the operator came up, on a cluster whose kinds
// come one by one (case C44).
func (l *lab) checkOperatorStarts(t *testing.T) {
	t.Helper()
	out, err := l.Kubectl(t.Context(), "get", "pods", "-n", "oooi-system", "-l", "app.kubernetes.io/name=oooi-operator", "-o",
		`jsonpath={.items[0].status.containerStatuses[0].state.running.startedAt} {.items[0].status.conditions[?(@.type=="Ready")].lastTransitionTime} {.items[0].status.containerStatuses[0].restartCount}`)
	require.NoError(t, err)
	fields := strings.Fields(out)
	require.Len(t, fields, 3, out)
	started, err := time.Parse(time.RFC3339, fields[0])
	require.NoError(t, err)
	ready, err := time.Parse(time.RFC3339, fields[1])
	require.NoError(t, err)
	require.Less(t, ready.Sub(started), takenUpWithin)
	require.Equal(t, "0", fields[2], "it has ended meanwhile")
	l.progress.Say("the operator was Ready %.0fs after its start", ready.Sub(started).Seconds())
}

// checkOperatorMemory compares what the operator holds with what its pod may
// (case C44, behaviour B10).
func (l *lab) checkOperatorMemory(t *testing.T) {
	t.Helper()
	out, err := l.nodeOf(t, "operator").Script(t.Context(), `awk '/^VmRSS:/ { print $2 }' "/proc/$(pgrep -ox operator)/status"`)
	require.NoError(t, err)
	resident, err := strconv.Atoi(strings.TrimSpace(out))
	require.NoError(t, err)
	out, err = l.Kubectl(t.Context(), "get", "pods", "-n", "oooi-system", "-l", "app.kubernetes.io/name=oooi-operator", "-o", "jsonpath={.items[0].spec.containers[0].resources.limits.memory}")
	require.NoError(t, err)
	limit, mebibytes := strings.CutSuffix(out, "Mi")
	require.True(t, mebibytes, out)
	most, err := strconv.Atoi(limit)
	require.NoError(t, err)
	require.Less(t, resident>>10, most)
	l.progress.Say("the operator holds %d MiB of %d", resident>>10, most)
}

// checkKindsGo takes KubeVirt's kinds away and brings them back: nothing ends,
// nothing is withdrawn, and they are taken up again in time (behaviour B9, case C44).
func (l *lab) checkKindsGo(t *testing.T, vm *node.VM, clusters ...*hostedCluster) {
	before, err := vm.Boot(t.Context())
	require.NoError(t, err)
	operator, pods := l.operatorPID(t), l.dataPlane(t)
	gone, back := l.operatorSaid(t, "a kind is no longer served"), l.operatorSaid(t, "a kind is served")
	_, err = l.Kubectl(t.Context(), "delete", "crd", "--timeout=3m", "virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io")
	require.NoError(t, err)
	l.operatorSays(t, "a kind is no longer served", gone)
	l.progress.Say("the operator has seen that KubeVirt is gone")
	for _, sni := range []string{"", "api." + domainA} {
		require.NoError(t, node.Wait(t.Context(), patience, "the proxy without KubeVirt", l.reaches(vm, sni, l.a+"/api")))
	}
	after, err := vm.Boot(t.Context())
	require.NoError(t, err)
	require.Equal(t, before["ip"], after["ip"])

	require.NoError(t, l.Apply(t.Context(), testdata(t, "crds/kubevirt.yaml")))
	start := time.Now()
	l.operatorSays(t, "a kind is served", back)
	require.Less(t, time.Since(start), takenUpWithin)
	l.progress.Say("the operator has taken KubeVirt up again after %.1fs", time.Since(start).Seconds())
	for _, cluster := range clusters {
		l.startHosted(t, cluster)
		l.expect(t, "infraclusterattachment/"+cluster.Name, "Ready", "True")
	}
	l.whole(t)
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
	require.Equal(t, operator, l.operatorPID(t), "the operator has ended")
	require.Equal(t, pods, l.dataPlane(t), "pods were replaced or restarted")
	l.checkOperatorMemory(t)
}

// operatorSaid counts the lines of the operator's log about KubeVirt's kind that
// hold some words.
func (l *lab) operatorSaid(t *testing.T, words string) int {
	t.Helper()
	n, err := l.countSaid(t.Context(), words)
	require.NoError(t, err)
	return n
}

// operatorSays waits until there are more of them.
func (l *lab) operatorSays(t *testing.T, words string, before int) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, "the operator to say: "+words, func(ctx context.Context) error {
		n, err := l.countSaid(ctx, words)
		if err == nil && n <= before {
			err = fmt.Errorf("%d times, as before", n)
		}
		return err
	}))
}

func (l *lab) countSaid(ctx context.Context, words string) (int, error) {
	log, err := l.Kubectl(ctx, "logs", "-n", "oooi-system", "deployment/oooi-operator", "--tail=-1")
	n := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, words) && strings.Contains(line, "VirtualMachineInstance.kubevirt.io") {
			n++
		}
	}
	return n, err
}
