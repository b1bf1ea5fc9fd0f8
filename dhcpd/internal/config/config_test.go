package config

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

func fixture() *agentpb.DHCPConfig {
	return &agentpb.DHCPConfig{
		Cidr: "192.0.2.0/24", Gateway: "192.0.2.1", ServerIp: "192.0.2.2", DnsServers: []string{"192.0.2.3"},
		Mtu: 1500, LeaseSeconds: 3600, Range: &agentpb.AddressRange{Start: "192.0.2.100", End: "192.0.2.199"},
		NetworkAttachments: []*agentpb.NetworkAttachment{{Namespace: "default", Name: "vlan100"}},
		VmiNamespaces:      []string{"b", "a", "b"},
	}
}

func snapshot(in *agentpb.DHCPConfig) *agentpb.Snapshot {
	return &agentpb.Snapshot{Config: &agentpb.Snapshot_Dhcp{Dhcp: in}}
}

func TestAWholeSnapshot(t *testing.T) {
	s := snapshot(fixture())
	s.Child = &agentpb.Child{Namespace: "ns", Name: "n", Uid: "u", Generation: 7}
	c, err := From(s)
	require.NoError(t, err)
	require.Empty(t, c.Problems)
	require.Equal(t, Child{Namespace: "ns", Name: "n", UID: "u", Generation: 7}, c.Child)
	require.Equal(t, []string{"a", "b"}, c.Namespaces)
	require.Equal(t, []Network{{Namespace: "default", Name: "vlan100"}}, c.Networks)
	require.True(t, c.Lease.Headroom)
	require.Equal(t, time.Hour, c.Lease.LeaseTime)
	require.Equal(t, []lease.Range{{First: netip.MustParseAddr("192.0.2.3"), Last: netip.MustParseAddr("192.0.2.3")}}, c.Lease.Excluded, "a DNS server of the network is nobody's (hazard 70)")
	require.True(t, strings.HasPrefix(c.Version, "sha256:"))
	other := fixture()
	other.Mtu = 9000
	d, err := From(snapshot(other))
	require.NoError(t, err)
	require.NotEqual(t, c.Version, d.Version)
	s.Version = "sha256:given"
	c, err = From(s)
	require.NoError(t, err)
	require.Equal(t, "sha256:given", c.Version)
}

func TestWhatCannotBeServedAtAllIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*agentpb.DHCPConfig)
		want string
	}{
		{"no network", func(c *agentpb.DHCPConfig) { c.Cidr = "" }, `cidr ""`},
		{"an IPv6 network", func(c *agentpb.DHCPConfig) { c.Cidr = "2001:db8::/64" }, "cidr"},
		{"a server outside", func(c *agentpb.DHCPConfig) { c.ServerIp = "192.0.3.2" }, "serverIp 192.0.3.2 is outside"},
		{"no server", func(c *agentpb.DHCPConfig) { c.ServerIp = "" }, "serverIp"},
		{"no gateway", func(c *agentpb.DHCPConfig) { c.Gateway = "" }, "gateway"},
		{"leading zeros", func(c *agentpb.DHCPConfig) { c.Gateway = "192.0.2.01" }, "gateway"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := fixture()
			c.edit(in)
			_, err := From(snapshot(in))
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := From(&agentpb.Snapshot{Config: &agentpb.Snapshot_Dns{Dns: &agentpb.DNSConfig{}}})
	require.ErrorIs(t, err, ErrNoDHCP)
}

func TestSmallerMistakesAreNamedAndTheRestIsServed(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*agentpb.DHCPConfig)
		want Problem
	}{
		{"no range", func(c *agentpb.DHCPConfig) { c.Range = nil }, Problem{"InvalidConfiguration", `range: ""-"" is no range of IPv4 addresses`}},
		{"a reversed range", func(c *agentpb.DHCPConfig) { c.Range.Start, c.Range.End = c.Range.End, c.Range.Start }, Problem{"InvalidConfiguration", `range: "192.0.2.199"-"192.0.2.100" is no range of IPv4 addresses`}},
		{"a range outside", func(c *agentpb.DHCPConfig) { c.Range.End = "192.0.3.1" }, Problem{"InvalidConfiguration", "range 192.0.2.100-192.0.3.1 is not inside of 192.0.2.0/24"}},
		{"a lease of a second (hazard 86)", func(c *agentpb.DHCPConfig) { c.LeaseSeconds = 1 }, Problem{"InvalidConfiguration", "leaseSeconds 1 is not between 60 and 2592000"}},
		{"a lease of a year", func(c *agentpb.DHCPConfig) { c.LeaseSeconds = 31536000 }, Problem{"InvalidConfiguration", "leaseSeconds 31536000 is not between 60 and 2592000"}},
		{"a name for option 6 (hazard 82)", func(c *agentpb.DHCPConfig) { c.DnsServers = []string{"resolv.conf", "192.0.2.3"} }, Problem{"InvalidConfiguration", `dnsServers: "resolv.conf" is not an IPv4 address`}},
		{"an MTU of 10", func(c *agentpb.DHCPConfig) { c.Mtu = 10 }, Problem{"InvalidConfiguration", "mtu 10 is not between 68 and 65535"}},
		{"an option that is ours (hazard 80)", func(c *agentpb.DHCPConfig) { c.Options = []*agentpb.DHCPOption{{Code: 54, Value: []byte{1, 2, 3, 4}}} }, Problem{"InvalidOption", "option 54 is decided by the server"}},
		{"an option code of 300", func(c *agentpb.DHCPConfig) { c.Options = []*agentpb.DHCPOption{{Code: 300}} }, Problem{"InvalidOption", "option 300 is decided by the server"}},
		{"an option twice", func(c *agentpb.DHCPConfig) { c.Options = []*agentpb.DHCPOption{{Code: 42}, {Code: 42}} }, Problem{"InvalidOption", "option 42 is there twice"}},
		{"an option too long", func(c *agentpb.DHCPConfig) { c.Options = []*agentpb.DHCPOption{{Code: 42, Value: make([]byte, 256)}} }, Problem{"InvalidOption", "option 42 is longer than 255 bytes"}},
		{"routes without a default (hazard 79)", func(c *agentpb.DHCPConfig) {
			c.Options = []*agentpb.DHCPOption{{Code: 121, Value: []byte{24, 10, 0, 0, 192, 0, 2, 9}}}
		}, Problem{"InvalidOption", "option 121 holds no default route, which would take the gateway from every client"}},
		{"a reservation for a multicast address", func(c *agentpb.DHCPConfig) {
			c.Reservations = []*agentpb.DHCPReservation{{MacAddress: "01:00:5e:00:00:01", Ip: "192.0.2.50"}}
		}, Problem{"InvalidConfiguration", `reservations: "01:00:5e:00:00:01" is not the address of one station`}},
		{"a reservation outside", func(c *agentpb.DHCPConfig) {
			c.Reservations = []*agentpb.DHCPReservation{{MacAddress: "02:00:00:00:00:01", Ip: "10.0.0.1"}}
		}, Problem{"InvalidConfiguration", "reservations 10.0.0.1 is outside of 192.0.2.0/24"}},
		{"a reservation of the gateway", func(c *agentpb.DHCPConfig) {
			c.Reservations = []*agentpb.DHCPReservation{{MacAddress: "02:00:00:00:00:01", Ip: "192.0.2.1"}}
		}, Problem{"InvalidConfiguration", "reservations: 02:00:00:00:00:01 and 192.0.2.1: one of them is used twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := fixture()
			c.edit(in)
			cfg, err := From(snapshot(in))
			require.NoError(t, err)
			require.Equal(t, []Problem{c.want}, cfg.Problems)
		})
	}
}

func TestRoutesWithADefaultAreTaken(t *testing.T) {
	in := fixture()
	in.Options = []*agentpb.DHCPOption{{Code: 121, Value: []byte{24, 10, 0, 0, 192, 0, 2, 9, 0, 192, 0, 2, 1}}}
	in.Reservations = []*agentpb.DHCPReservation{{MacAddress: "02-00-00-00-00-01", Ip: "192.0.2.50", Hostname: "printer"}}
	cfg, err := From(snapshot(in))
	require.NoError(t, err)
	require.Empty(t, cfg.Problems)
	require.Len(t, cfg.Options, 1)
	require.Equal(t, "printer", cfg.HostNames[lease.MAC{2, 0, 0, 0, 0, 1}])
}

// A small file that unpacks into a large one takes no more memory than its
// reader has, whatever is in it.
func TestWhatUnpacksIntoTooMuchIsRefusedAtOnce(t *testing.T) {
	fill := func(begin, middle, end string, size int) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := io.WriteString(w, begin)
		require.NoError(t, err)
		chunk := []byte(strings.Repeat(middle, 1<<16/len(middle)))
		for n := 0; n < size; n += len(chunk) {
			_, err = w.Write(chunk)
			require.NoError(t, err)
		}
		_, err = io.WriteString(w, end)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	const below = MaxSnapshot - 1<<17
	for _, c := range []struct {
		name string
		data []byte
		want string // in the error; empty = it is taken
	}{
		{"zeros", fill("", "\x00", "", 2*MaxSnapshot), "larger than"},
		{"spaces", fill("", " ", "{}", 2*MaxSnapshot), "larger than"},
		{"a long string", fill(`{"dhcp":{"cidr":"`, "x", `"}}`, 2*MaxSnapshot), "larger than"},
		{"as many spaces as there may be", fill(`{"dhcp":{`, " ", "}}", below), ""},
		{"a string as long as it may be", fill(`{"dhcp":{"cidr":"`, "x", `"}}`, below), ""},
		{"options without end", fill(`{"dhcp":{"options":[`, "{},", "{}]}}", below), "more than"},
		{"relays without end", fill(`{"dhcp":{"relays":[`, `"",`, `""]}}`, below), "more than"},
		{"as many options as there may be", fill(`{"dhcp":{"options":[`, "{},", "{}]}}", 3*maxValues-1<<17), ""},
		{"as many reservations, and a mistake", fill(`{"dhcp":{"reservations":[`, "{},", "{}],}}", 3*maxValues-1<<17), "dhcp"},
		{"objects in objects", fill("", `{"a":`, "", below), "depth"},
		{"lists in lists", fill(`{"a":`, "[", "", below), "depth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Decode(c.data)
			runtime.ReadMemStats(&after)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
			require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(96), "MiB, most of it gone at once")
		})
	}
}

func TestSnapshotFilesArePlainOrGzipped(t *testing.T) {
	s := snapshot(fixture())
	plain, err := Encode(s)
	require.NoError(t, err)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err = w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for name, b := range map[string][]byte{"plain": plain, "gzipped": zipped.Bytes()} {
		got, err := Decode(b)
		require.NoError(t, err, name)
		require.True(t, proto.Equal(s, got), name)
	}
	_, err = Decode([]byte(`{"dhcp":{"cidr":"192.0.2.0/24","fromTheFuture":1}}`))
	require.NoError(t, err, "unknown fields are ignored")
	for _, b := range []string{"", "{", "\x1f\x8b", "\x1f\x8bjunk", `{"dhcp":1}`} {
		_, err := Decode([]byte(b))
		require.Error(t, err, "%q", b)
	}
}
