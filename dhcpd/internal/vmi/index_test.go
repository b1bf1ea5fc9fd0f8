package vmi

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

func fixture() *config.Config {
	return &config.Config{
		Prefix:   netip.MustParsePrefix("192.0.2.0/24"),
		Networks: []config.Network{{Namespace: "default", Name: "vlan100"}},
	}
}

func read(t *testing.T, cfg *config.Config, files ...string) *Index {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join("testdata", f))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), b, 0o600))
	}
	x, err := newReader(Files{Dir: dir, Log: slog.Default()}).index(cfg)
	require.NoError(t, err)
	return x
}

func parse(t *testing.T, cfg *config.Config, docs string) *Index {
	t.Helper()
	m, err := newFilter(cfg).parse([]byte(docs))
	require.NoError(t, err)
	return build(m, map[string]bool{"*": true}, nil)
}

func mac(n byte) lease.MAC { return lease.MAC{2, 0, 0x5e, 0x10, 0, n} }

// case C17, hazards 76, 246: every form of a hardware address, from the spec
// or from the status alone.
func TestMachinesAreFoundWhateverTheFormOfTheirAddress(t *testing.T) {
	x := read(t, fixture(), "vmi-mac-forms.yaml")
	require.Equal(t, []lease.VM{{Namespace: "clusters-example-hcp-a", Name: "example-hcp-a-7k2lq-x9fzt", Interface: "iface1_default-vlan100"}}, x.VMs(mac(0x0a)))
	require.Equal(t, []lease.VM{{Namespace: "clusters-example-hcp-b", Name: "example-hcp-b-m4d8w-t2c6j", Interface: "iface1_default-vlan100"}}, x.VMs(mac(0x0b)))
	require.Equal(t, 2, x.Len())
	require.Empty(t, x.Duplicates())
	require.Equal(t, netip.MustParseAddr("192.0.2.101"), x.Claims()[0].IP)
	require.Equal(t, netip.MustParseAddr("192.0.2.150"), x.Claims()[1].IP)
}

// case C17, hazards 14, 15: two machines with one address on this network; a
// third on another does not count.
func TestTwoMachinesWithOneAddressAreNamed(t *testing.T) {
	x := read(t, fixture(), "vmi-two-with-one-mac.yaml")
	require.Equal(t, []string{"02:00:5e:10:00:0a: clusters-example-hcp-a/example-hcp-a-7k2lq-x9fzt, clusters-example-hcp-b/restored-copy"}, x.Duplicates())
	require.Len(t, x.VMs(mac(0x0a)), 2)
}

// hazard 14: a hardware address says nothing of a machine that does not run, however
// old it is: whoever may make VirtualMachines elsewhere takes no lease's name by it.
func TestOfTwoMachinesTheOneThatRunsComesFirst(t *testing.T) {
	stopped := `
kind: VirtualMachine
metadata: {name: thief, namespace: a, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  template:
    spec:
      domain: {devices: {interfaces: [{name: net, bridge: {}, macAddress: "02:00:5e:10:00:01"}]}}
      networks: [{name: net, multus: {networkName: default/vlan100}}]
---`
	runs := vmi("b", "multus: {networkName: default/vlan100}", "status: {phase: Running}")
	done := vmi("b", "multus: {networkName: default/vlan100}", "status: {phase: Failed}")
	waits := vmi("b", "multus: {networkName: default/vlan100}", "status: {phase: Scheduling}")
	for _, docs := range []*string{&runs, &done, &waits} {
		*docs = strings.Replace(*docs, "{name: vm,", `{name: vm, creationTimestamp: "2026-02-01T00:00:01Z",`, 1)
	}
	young := strings.ReplaceAll(stopped, "2026-01-01", "2026-02-01")
	young = strings.ReplaceAll(young, "thief", "vm")
	young = strings.ReplaceAll(young, "namespace: a", "namespace: b")
	for _, c := range []struct{ name, docs, want string }{
		{"a running one before an older one that is stopped", stopped + young + runs, "b/vm"},
		{"of two that do not run the older", stopped + young, "a/thief"},
		{"one that has ended does not run", stopped + young + done, "a/thief"},
		{"one that has no place to run does not run", stopped + young + waits, "a/thief"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, parse(t, fixture(), c.docs).VMs(mac(1))[0].String())
		})
	}
}

func vmi(namespace, network, extra string) string {
	return `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: vm, namespace: ` + namespace + `}
spec:
  domain: {devices: {interfaces: [{name: net, bridge: {}, macAddress: "02:00:5e:10:00:01"}]}}
  networks: [{name: net, ` + network + `}]
` + extra
}

// hazards 15, 16, 31: which networks are ours, of all that a machine has.
func TestOnlyThisNetworkCounts(t *testing.T) {
	cfg := fixture()
	cfg.Networks = append(cfg.Networks, config.Network{Namespace: "tenant", Name: "vlan100"})
	for _, c := range []struct {
		name, namespace, network string
		want                     int
	}{
		{"by namespace and name", "anywhere", "multus: {networkName: default/vlan100}", 1},
		{"without a namespace, of the machine's", "tenant", "multus: {networkName: vlan100}", 1},
		{"without a namespace, of another's", "anywhere", "multus: {networkName: vlan100}", 0},
		{"another name", "default", "multus: {networkName: vlan200}", 0},
		{"another namespace", "default", "multus: {networkName: other/vlan100}", 0},
		{"the pod network", "default", "pod: {}", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Len(t, parse(t, cfg, vmi(c.namespace, c.network, "")).VMs(mac(1)), c.want)
		})
	}
}

// hazard 77: a finished machine keeps its address and gives up its name.
func TestAFinishedMachineExistsAndHasNoInterface(t *testing.T) {
	x := parse(t, fixture(), vmi("ns", "multus: {networkName: default/vlan100}", "status: {phase: Succeeded}"))
	require.Empty(t, x.VMs(mac(1)))
	require.Equal(t, lease.Exists, x.Exists(lease.VM{Namespace: "ns", Name: "vm"}))
	require.Equal(t, lease.Gone, x.Exists(lease.VM{Namespace: "ns", Name: "other"}))
}

// hazard 12: a stopped machine is known by its VirtualMachine.
func TestAStoppedMachineIsKnown(t *testing.T) {
	x := parse(t, fixture(), `
kind: List
items:
- kind: VirtualMachine
  metadata: {name: vm, namespace: ns}
  spec:
    template:
      spec:
        domain: {devices: {interfaces: [{name: net, bridge: {}, macAddress: "02:00:5e:10:00:01"}]}}
        networks: [{name: net, multus: {networkName: default/vlan100}}]
- kind: VirtualMachine
  metadata: {name: empty, namespace: ns}
- kind: ConfigMap
`)
	require.Equal(t, []lease.VM{{Namespace: "ns", Name: "vm", Interface: "net"}}, x.VMs(mac(1)))
	require.Equal(t, lease.Exists, x.Exists(lease.VM{Namespace: "ns", Name: "empty"}))
}

// hazard 250: what a status holds that is none of ours.
func TestAddressesOfAStatus(t *testing.T) {
	for _, c := range []struct {
		name, status string
		macs         int
		want         string
	}{
		{"IPv6 first", `{name: net, ipAddress: "2001:db8::1", ipAddresses: ["2001:db8::1", "192.0.2.7"]}`, 1, "192.0.2.7"},
		{"the masquerade address", `{name: net, ipAddress: 10.0.2.2}`, 1, ""},
		{"with a width", `{name: net, ipAddress: 192.0.2.7/24}`, 1, "192.0.2.7"},
		{"nothing", `{name: net, ipAddress: "", ipAddresses: [""]}`, 1, ""},
		{"another address than the spec's", `{name: net, mac: "02:00:5e:10:00:02", infoSource: domain}`, 2, ""},
		{"the guest agent's word alone", `{name: net, mac: "02:00:5e:10:00:02", ipAddress: 192.0.2.7, infoSource: guest-agent}`, 1, ""},
		{"an interface inside of the guest", `{name: "", mac: "02:00:5e:10:00:02", ipAddress: 192.0.2.7}`, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := parse(t, fixture(), vmi("ns", "multus: {networkName: default/vlan100}", "status: {interfaces: ["+c.status+"]}"))
			require.Equal(t, c.macs, len(x.VMs(mac(1)))+len(x.VMs(mac(2))))
			if c.want == "" {
				require.Empty(t, x.Claims())
			} else {
				require.Equal(t, c.want, x.Claims()[0].IP.String())
			}
		})
	}
}

// behaviour C5: two claims for one address count for neither.
func TestAnAddressThatTwoMachinesClaimIsNobodys(t *testing.T) {
	one := vmi("a", "multus: {networkName: default/vlan100}", "status: {interfaces: [{name: net, ipAddress: 192.0.2.7}]}")
	two := vmi("b", "multus: {networkName: default/vlan100}", "status: {interfaces: [{name: net, ipAddress: 192.0.2.7}]}")
	require.Len(t, parse(t, fixture(), one).Claims(), 1)
	require.Empty(t, parse(t, fixture(), one+"\n---\n"+two).Claims())
}

// hazard 11.
func TestLongNamesAreListed(t *testing.T) {
	long := strings.Repeat("x", 64)
	x := parse(t, fixture(), strings.Replace(vmi("ns", "pod: {}", ""), "name: vm", "name: "+long, 1))
	require.Equal(t, []string{"ns/" + long}, x.LongNames())
}

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	configs, indexes := make(chan *config.Config, 1), make(chan *Index, 8)
	done := make(chan error, 1)
	go func() {
		done <- Files{Dir: dir, Log: slog.Default()}.Run(ctx, configs, func(x *Index) { indexes <- x })
	}()
	configs <- fixture()
	require.Equal(t, 0, (<-indexes).Len())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(vmi("ns", "multus: {networkName: default/vlan100}", "")), 0o600))
	require.Equal(t, 1, (<-indexes).Len())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.yaml"), []byte(": not yaml"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ignored.txt"), []byte("x"), 0o600))
	require.Eventually(t, func() bool { return os.Remove(filepath.Join(dir, "b.yaml")) == nil }, time.Minute, 5*time.Millisecond)
	require.NoError(t, os.Remove(filepath.Join(dir, "a.yaml")))
	for (<-indexes).Len() != 0 {
	}
	other := fixture()
	other.Namespaces = []string{"elsewhere"}
	configs <- other
	require.Equal(t, 0, (<-indexes).Len())
	stop()
	require.NoError(t, <-done)
}
