package resolve

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// server answers every question for an A record with the same addresses.
func server(t *testing.T, answers ...string) string {
	t.Helper()
	pc, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			for _, a := range answers {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 5},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
				})
			}
			if out, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	return pc.LocalAddr().String()
}

func policy(upstreams ...string) Policy {
	return Policy{
		Upstreams: upstreams, CIDR: netip.MustParsePrefix("192.0.2.0/24"),
		Reserved: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.4")},
	}
}

// behaviour E6.
func TestOnlyFreeAddressesOfTheVLANAreUsed(t *testing.T) {
	cases := []struct {
		name    string
		answers []string
		want    []string
	}{
		{"addresses of the VLAN, sorted and once each", []string{"192.0.2.201", "192.0.2.200", "192.0.2.201"}, []string{"192.0.2.200", "192.0.2.201"}},
		{"one outside is left out", []string{"10.96.0.1", "192.0.2.200"}, []string{"192.0.2.200"}},
		{"the gateway and the server are left out", []string{"192.0.2.1", "192.0.2.4"}, nil},
		{"the network's own two addresses are left out", []string{"192.0.2.0", "192.0.2.255"}, nil},
		{"loopback is left out", []string{"127.0.0.1"}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := policy(server(t, c.answers...)).Host(t.Context(), "lb.tenant.example")
			if c.want == nil {
				require.ErrorContains(t, err, "none of its")
				return
			}
			require.NoError(t, err)
			var words []string
			for _, a := range got {
				words = append(words, a.String())
			}
			require.Equal(t, c.want, words)
		})
	}
}

func TestADeadUpstreamIsPassedOver(t *testing.T) {
	pc, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	require.NoError(t, err)
	dead := pc.LocalAddr().String()
	require.NoError(t, pc.Close())
	got, err := policy(dead, server(t, "192.0.2.200")).Host(t.Context(), "lb.tenant.example")
	require.NoError(t, err)
	require.Len(t, got, 1)
}

// The cluster's own resolver is never asked: a tenant's name could learn or
// reach what lies behind it.
func TestWithoutAnUpstreamOfTheVLANNobodyIsAsked(t *testing.T) {
	for _, u := range [][]string{nil, {"resolv.conf"}, {"not an address"}} {
		_, err := policy(u...).Host(t.Context(), "lb.tenant.example")
		require.ErrorIs(t, err, ErrNoUpstream)
	}
}
