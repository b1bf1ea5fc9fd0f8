package pods

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

const (
	macA, addressA = "02:00:5e:10:00:0a", "192.0.2.101"
	macB, addressB = "02:00:5e:10:00:0b", "192.0.2.150"
	dhcpIP         = "192.0.2.2"
	dnsIP          = "192.0.2.3"
	proxyIP        = "192.0.2.4"
	unfencedIP     = "192.0.2.9"
	domainA        = "example-hcp-a.clusters.example.com"
	domainB        = "example-hcp-b.clusters.example.com"
)

// TestPodsByHand proves the shape of the three pods before anything renders
// them (behaviours B3, B4, B5, C8, D10, E10, E13).
func TestPodsByHand(t *testing.T) {
	t.Parallel()
	l := newLab(t, "pods", 1)
	l.namespace, l.proxyPorts, l.a, l.b = "vlan100", "80 443 6443", "a", "b"
	l.deployByHand(t)
	l.checkRights(t)

	a := l.boot(t, "vm-a", macA, addressA)
	b := l.boot(t, "vm-b", macB, addressB)
	l.step(t, "the leased resolver answers", func(t *testing.T) { l.checkNames(t, a) })
	l.step(t, "TLS lands on the right control plane", func(t *testing.T) { l.checkRoutes(t, a, b) })
	l.step(t, "sockets are bound to one side", func(t *testing.T) { l.checkSockets(t) })
	l.step(t, "a port scan finds nothing else", func(t *testing.T) { l.checkScan(t, a) })
	l.step(t, "nothing is reached through a server address", func(t *testing.T) { l.checkCrossing(t, a) })
	l.step(t, "what is killed comes back", func(t *testing.T) { l.checkKills(t, a, b) })
	l.step(t, "nothing needs the API server", func(t *testing.T) { l.checkNoAPI(t, a) })
	l.step(t, "the agents report", func(t *testing.T) { l.checkStatus(t) })
}

// deployByHand applies what the operator would.
func (l *lab) deployByHand(t *testing.T) {
	t.Helper()
	world, dhcp, dns, proxy := testdata(t, "world.yaml"), testdata(t, "dhcp.yaml"), testdata(t, "dns.yaml"), testdata(t, "proxy.yaml")
	l.loadImages(t, world, dhcp, dns, proxy)
	_, err := l.Kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(l.root, "manifests/crd"))
	require.NoError(t, err)
	require.NoError(t, l.Apply(t.Context(), testdata(t, "crds/kubevirt.yaml")))
	require.NoError(t, l.Apply(t.Context(), world))
	require.NoError(t, node.Wait(t.Context(), patience, "the resources to be served", func(ctx context.Context) error {
		return l.Apply(ctx, testdata(t, "oooi.yaml"))
	}))
	nothing := func(map[string]any) {}
	require.NoError(t, l.Apply(t.Context(), l.snapshot(t, "dhcp", "dhcpserver", func(config map[string]any) {
		config["vmiNamespaces"] = []any{"clusters-example-hcp-a", "clusters-example-hcp-b"}
		config["reservations"] = []any{
			map[string]any{"macAddress": macA, "ip": addressA, "hostname": "vm-a-leased"},
			map[string]any{"macAddress": macB, "ip": addressB, "hostname": "vm-b-leased"},
		}
	})))
	require.NoError(t, l.Apply(t.Context(), l.snapshot(t, "dns", "dnsserver", nothing)))
	require.NoError(t, l.Apply(t.Context(), l.snapshot(t, "proxy", "proxyserver", nothing)))
	for _, manifest := range []string{dhcp, dns, proxy} {
		require.NoError(t, l.Apply(t.Context(), manifest))
	}
	for _, deployment := range []string{"vlan100-dhcp", "vlan100-dns", "vlan100-proxy"} {
		l.rollout(t, l.namespace, deployment)
	}
	for _, ns := range []string{"clusters-example-hcp-a", "clusters-example-hcp-b"} {
		l.rollout(t, ns, "control-plane")
	}
	l.deployBystanders(t)
}

// checkRights looks at the running processes: who they are and what they may.
func (l *lab) checkRights(t *testing.T) {
	t.Helper()
	const none, netRaw = "0000000000000000", "0000000000002000"
	for process, capabilities := range map[string]string{"dhcpd": netRaw, "coredns": none, "xds-manager": none, "envoy": none} {
		out, err := l.nodeOf(t, process).Script(t.Context(), `cat /proc/$(pgrep -ox "$NAME")/status`, "NAME="+process)
		require.NoError(t, err)
		status := map[string]string{}
		for line := range strings.Lines(out) {
			key, value, _ := strings.Cut(line, ":")
			status[key] = strings.Join(strings.Fields(value), " ")
		}
		require.Equal(t, "65532 65532 65532 65532", status["Uid"], "%s must not run as root", process)
		require.Equal(t, capabilities, status["CapEff"], "capabilities of %s", process)
		require.Equal(t, capabilities, status["CapPrm"], "capabilities of %s", process)
		require.Equal(t, "2", status["Seccomp"], "%s must run under the runtime's seccomp filter", process)
	}
	l.progress.Say("the processes have no right that they should not have")
}

// boot starts a VM and expects an address (behaviours C1, C2).
func (l *lab) boot(t *testing.T, name, mac, address string) *node.VM {
	t.Helper()
	vm, err := l.VM(t.Context(), name, mac)
	require.NoError(t, err)
	start := time.Now()
	lease, err := vm.Boot(t.Context())
	require.NoError(t, err)
	l.progress.Say("%s leased %s as %s in %.2fs", name, lease["ip"], lease["hostname"], time.Since(start).Seconds())
	require.Equal(t, node.Lease{
		"ip": address, "mask": "24", "router": "192.0.2.1", "dns": dnsIP, "hostname": name + "-leased",
		"lease": "3600", "serverid": dhcpIP, "mtu": "1500",
	}, lease)
	return vm
}

func (l *lab) checkNames(t *testing.T, vm *node.VM) {
	for name, want := range map[string]string{
		"api." + domainA:                       proxyIP,
		"api-int." + domainA:                   proxyIP,
		"oauth." + domainA:                     proxyIP,
		"console.apps." + domainA:              "192.0.2.200",
		"console.apps." + domainB:              "",
		"kubernetes.default.svc":               proxyIP,
		"kubernetes.default.svc.cluster.local": proxyIP,
		"www.example.org":                      "203.0.113.80",
	} {
		for _, transport := range []string{"+notcp", "+tcp"} {
			got, err := vm.Output(t.Context(), "dig", "+short", "+time=5", "+tries=3", transport, name, "A")
			require.NoError(t, err)
			require.Equal(t, want, strings.TrimSpace(got), "%s %s", name, transport)
		}
	}
}

func (l *lab) checkRoutes(t *testing.T, a, b *node.VM) {
	const closed = "closed"
	for _, c := range []struct {
		name string
		vm   *node.VM
		port int
		sni  string
		want string
	}{
		{"A's API by name", a, 6443, "api." + domainA, l.a + "/api"},
		{"A's API from B, TLS protects there", b, 6443, "api." + domainA, l.a + "/api"},
		{"B's API by name", b, 6443, "api-int." + domainB, l.b + "/api"},
		{"OAuth by name", a, 443, "oauth." + domainA, l.a + "/oauth"},
		{"ignition by name", a, 443, "ignition." + domainA, l.a + "/ignition"},
		{"konnectivity by name", b, 443, "konnectivity." + domainB, l.b + "/konnectivity"},
		{"alias from A", a, 443, "kubernetes.default.svc", l.a + "/api"},
		{"alias from B", b, 443, "kubernetes.default.svc", l.b + "/api"},
		{"no SNI on 6443 from A", a, 6443, "", l.a + "/api"},
		{"no SNI on 6443 from B", b, 6443, "", l.b + "/api"},
		{"no SNI on 443 from A", a, 443, "", l.a + "/konnectivity"},
		{"no SNI on 443 from B", b, 443, "", l.b + "/konnectivity"},
		{"an unknown name on 443", a, 443, "www.example.org", closed},
		{"a name of 6443 on 443", a, 443, "api." + domainA, closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.vm.Output(t.Context(), l.standin, "tls", fmt.Sprintf("%s:%d", proxyIP, c.port), c.sni)
			require.NoError(t, err)
			require.Equal(t, c.want, strings.TrimSpace(got))
		})
	}
}

// checkStatus reads what the agents wrote back (behaviour H4).
func (l *lab) checkStatus(t *testing.T) {
	for kind, name := range map[string]string{"dhcpserver": "vlan100-dhcp", "dnsserver": "vlan100-dns", "proxyserver": "vlan100-proxy"} {
		require.NoError(t, node.Wait(t.Context(), patience, name+" to report", func(ctx context.Context) error {
			out, err := l.Kubectl(ctx, "get", kind, "-n", l.namespace, name, "-o",
				"jsonpath={.status.agent.observedVersion} {.status.agent.problems}")
			if err == nil && (!strings.HasPrefix(out, "sha256:") || strings.Contains(out, "ForwardingEnabled")) {
				err = fmt.Errorf("%s says %q", name, out)
			}
			return err
		}))
	}
}
