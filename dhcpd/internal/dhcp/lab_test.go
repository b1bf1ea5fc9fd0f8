package dhcp

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// theVM is the sender of all byte files, theVMsIP its address.
var (
	theVM   = lease.MAC{2, 0, 0x5e, 0x10, 0, 0x0a}
	theVMIs = lease.VM{Namespace: "clusters-example-hcp-a", Name: "example-hcp-a-7k2lq-x9fzt", Interface: "iface1_default-vlan100"}
)

const theVMsIP = "192.0.2.101"

// fixture is the network of the cases.
func fixture() *agentpb.DHCPConfig {
	return &agentpb.DHCPConfig{
		Cidr: "192.0.2.0/24", Gateway: "192.0.2.1", ServerIp: "192.0.2.2",
		DnsServers: []string{"192.0.2.3"}, Mtu: 1500, LeaseSeconds: 3600,
		Range:          &agentpb.AddressRange{Start: "192.0.2.100", End: "192.0.2.199"},
		ExcludedRanges: []*agentpb.AddressRange{{Start: "192.0.2.3", End: "192.0.2.4"}},
		Relays:         []string{"203.0.113.1"},
	}
}

// machines is a directory.
type machines map[lease.MAC][]lease.VM

func (d machines) VMs(m lease.MAC) []lease.VM      { return d[m] }
func (d machines) Exists(lease.VM) lease.Existence { return lease.Exists }
func (d machines) Len() int                        { return len(d) }

// newHandler serves the fixture; with the machine known and bound, if known.
func newHandler(t testing.TB, in *agentpb.DHCPConfig, known bool) *Handler {
	t.Helper()
	cfg, err := config.From(&agentpb.Snapshot{Config: &agentpb.Snapshot_Dhcp{Dhcp: in}})
	require.NoError(t, err)
	require.Empty(t, cfg.Problems)
	h := &Handler{Config: cfg, Table: lease.New(cfg.Lease, start), Directory: machines{}}
	if known {
		d := machines{theVM: {theVMIs}}
		h.Directory = d
		h.Table.Sync(d, start)
		require.True(t, h.Table.Claim(theVM, theVMIs, ip(theVMsIP), start))
		h.Table.Take(nil)
	}
	return h
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return b
}

// handle parses and handles a message's bytes.
func handle(t testing.TB, h *Handler, b []byte) Result {
	t.Helper()
	var m Message
	require.NoError(t, m.Parse(b))
	return h.Handle(&m, start, nil)
}

// parsed is the answer as another implementation reads it.
func parsed(t testing.TB, r Result) *dhcpv4.DHCPv4 {
	t.Helper()
	require.NotNil(t, r.Answer, "no answer: %s", r.Outcome)
	p, err := dhcpv4.FromBytes(r.Answer)
	require.NoError(t, err)
	return p
}

// message makes a client's message.
func message(t testing.TB, mac lease.MAC, typ dhcpv4.MessageType, mods ...dhcpv4.Modifier) []byte {
	t.Helper()
	mods = append([]dhcpv4.Modifier{
		dhcpv4.WithHwAddr(net.HardwareAddr(mac[:])), dhcpv4.WithMessageType(typ), dhcpv4.WithTransactionID(dhcpv4.TransactionID{1, 2, 3, 4}),
	}, mods...)
	p, err := dhcpv4.New(mods...)
	require.NoError(t, err)
	return p.ToBytes()
}

func option(code dhcpv4.OptionCode, v []byte) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptGeneric(code, v))
}

func requested(s string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(s)))
}

func server(s string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(s)))
}

func ciaddr(s string) dhcpv4.Modifier {
	return func(d *dhcpv4.DHCPv4) { d.ClientIPAddr = net.ParseIP(s).To4() }
}
