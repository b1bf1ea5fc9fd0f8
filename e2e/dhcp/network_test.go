package dhcp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// The rest of the network of the cases.
const (
	quietIP    = "192.0.2.50" // the station's, if it needs one
	quietMAC   = "02:00:5e:10:0f:01"
	strangerOf = "02:00:5e:10:0e:0" // the beginning of strangers' addresses
	serverName = "infra-dhcp"
)

// plan is what is peculiar to one case.
type plan struct {
	lease      int    // seconds; 0 = an hour
	machines   string // YAML
	namespaces []string
	addresses  []string // of the station
	control    *control // nil = no API server
	cluster    bool     // machines come from there too
}

func (p plan) snapshot() map[string]any {
	if p.lease == 0 {
		p.lease = 3600
	}
	out := snapshot(p.lease)
	if p.namespaces == nil {
		p.namespaces = []string{"clusters-example-hcp-a", "clusters-example-hcp-b", "other"}
	}
	out["dhcp"].(map[string]any)["vmiNamespaces"] = p.namespaces
	return out
}

// network is a rig whose server has a pod network too, with taps on both its
// devices and on a station of the VLAN.
type network struct {
	*rig
	plan    plan
	vlan    *tap // the server's net1
	pod     *tap // the server's eth0
	host    *lab.Host
	station *tap
}

func newNetwork(t *testing.T, p plan) *network {
	t.Helper()
	ctx := t.Context()
	l := lab.ForTest(t)
	r, err := prepareRig(ctx, l, t.TempDir(), p.snapshot(), p.machines)
	require.NoError(t, err)
	n := &network{rig: r, plan: p}
	if p.cluster {
		r.args = nil // no files
	}
	if p.control != nil {
		p.control.admit(t, n)
	} else {
		require.NoError(t, r.sw.Bridge(ctx, "pods"))
		require.NoError(t, r.server.Plug(ctx, r.sw, "pods", link("eth0", "", podIP+"/24")))
		require.NoError(t, r.server.Route(ctx, "default via "+podGateway+" dev eth0"))
	}
	require.NoError(t, r.server.Route(ctx, "203.0.113.0/24 via "+relayIP+" dev "+device))
	n.host = l.MustHost(t, "station")
	require.NoError(t, r.plug(ctx, n.host, "eth0", theVM, quietIP+"/24"))
	n.hold(t, p.addresses...)
	n.vlan, n.pod, n.station = openTap(t, r.server, device), openTap(t, r.server, "eth0"), openTap(t, n.host, "eth0")
	n.run(t)
	return n
}

// run starts the server, which takes below 10 s whatever it finds (case C16).
func (n *network) run(t *testing.T) {
	t.Helper()
	began := time.Now()
	require.NoError(t, n.start(t.Context()))
	require.Less(t, time.Since(began), 10*time.Second)
}

// hold gives the station addresses, for which it answers ARP from then on.
func (n *network) hold(t *testing.T, addresses ...string) {
	t.Helper()
	var lines strings.Builder
	for _, a := range addresses {
		fmt.Fprintf(&lines, "ip addr add %s/24 dev eth0\n", a)
	}
	require.NoError(t, sh(t.Context(), n.host, lines.String()))
}

// reconfigure puts a changed snapshot in force.
func (n *network) reconfigure(t *testing.T, change func(dhcp map[string]any)) {
	t.Helper()
	s := n.plan.snapshot()
	change(s["dhcp"].(map[string]any))
	before := n.said(`"msg":"snapshot in force"`)
	require.NoError(t, n.configure(s))
	require.NoError(t, waitFor(t.Context(), 4*patience, "the snapshot", func() bool {
		return n.said(`"msg":"snapshot in force"`) > before
	}, n.dhcpd.Output))
}

// said is how often the server's log has some words.
func (n *network) said(words string) int { return strings.Count(n.dhcpd.Output(), words) }

// has waits until the journal has a lease.
func (n *network) has(t *testing.T, mac, ip string) {
	t.Helper()
	require.NoError(t, lab.Until(t.Context(), 4*patience, "a lease", func(ctx context.Context) error {
		is, err := n.bound(ctx, mac)
		if err == nil && is != ip {
			err = fmt.Errorf("%s has %s", mac, is)
		}
		return err
	}))
}

func (n *network) rows(t *testing.T) []row {
	t.Helper()
	out, err := n.leases(t.Context())
	require.NoError(t, err)
	return out
}

// metric is the sum of a metric's values whose labels hold all of some words.
func (n *network) metric(t *testing.T, name string, labels ...string) int {
	t.Helper()
	out, err := n.server.Run(t.Context(), "busybox", "wget", "-q", "-O", "-", "http://"+health+"/metrics")
	require.NoError(t, err)
	total := 0.0
lines:
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 2 || f[0] != name && !strings.HasPrefix(f[0], name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(f[0], l) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(f[1], 64)
		require.NoError(t, err)
		total += v
	}
	return int(total)
}

func (n *network) count(t *testing.T, typ, outcome string) int {
	t.Helper()
	return n.metric(t, "oooi_dhcpd_messages_total", `type="`+typ+`"`, outcome)
}

// measures waits until a metric has a value; it is looked up once a second.
func (n *network) measures(t *testing.T, want int, name string, labels ...string) {
	t.Helper()
	got := 0
	require.NoError(t, waitFor(t.Context(), 2*patience, name, func() bool {
		got = n.metric(t, name, labels...)
		return got == want
	}, func() string { return fmt.Sprintf("%v is %d, not %d", labels, got, want) }))
}

// turn has the server answer one more message, so that whatever it would have
// said to those that it has counted is on the wire.
func (n *network) turn(t *testing.T) {
	t.Helper()
	p := n.station.ask(t, n.station.broadcast, of(t, quietMAC, message(t, "dhcp-inform")))
	require.Equal(t, quietIP+":68", p.to.String())
}

// silent has messages sent, and shows that they are counted as this and that
// nobody on the VLAN gets an answer.
func (n *network) silent(t *testing.T, typ, outcome string, messages int, send func()) {
	t.Helper()
	before, mark := n.count(t, typ, outcome), n.vlan.mark()
	send()
	require.NoError(t, waitFor(t.Context(), 2*patience, "the count", func() bool {
		return n.count(t, typ, outcome) >= before+messages
	}, n.dhcpd.Output))
	n.turn(t)
	require.Equal(t, before+messages, n.count(t, typ, outcome))
	require.Len(t, n.vlan.since(mark, sentByServer), 1, "the answer to turn's own message")
}

// sentByServer tells answers at a tap of the server's.
func sentByServer(p packet) bool { return p.out && p.payload[0] == 2 }

// state is all that the server keeps on disk, as one string.
func (n *network) state(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(n.dir, "state", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var out strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		out.Write(b)
	}
	return out.String()
}

// reborn kills the server, does something, and starts it again.
func (n *network) reborn(t *testing.T, between func()) {
	t.Helper()
	require.NoError(t, n.dhcpd.Kill())
	between()
	n.run(t)
}

// memory is the server's resident set in KiB.
func (n *network) memory(t *testing.T) int {
	t.Helper()
	pid, err := n.dhcpd.PID()
	require.NoError(t, err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kb
}
