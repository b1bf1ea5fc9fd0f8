package server

import (
	"net/netip"
	"testing"

	"github.com/densityops/oooi/dhcpd/internal/dhcp"
)

// behaviour C10: whatever a frame holds, its payload lies within it, and an
// answer can be wrapped and unwrapped.
func FuzzUnwrap(f *testing.F) {
	b := make([]byte, headers+300)
	wrap(b, netip.MustParseAddrPort("192.0.2.9:68"), netip.MustParseAddrPort("255.255.255.255:67"))
	f.Add(b)
	f.Add(b[:30])
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := unwrap(b)
		if !ok {
			return
		}
		if len(p.payload) > len(b)-headers {
			t.Fatalf("%d bytes of payload in %d", len(p.payload), len(b))
		}
		var m dhcp.Message
		_ = m.Parse(p.payload) // it must only end
		out := make([]byte, headers, headers+len(p.payload))
		out = append(out, p.payload...)
		wrap(out, p.src, netip.AddrPortFrom(p.dst, p.port))
		if fold(sum(out[:20], 0)) != 0xffff {
			t.Fatal("a wrong checksum")
		}
		if q, ok := unwrap(out); !ok || q.src != p.src || q.dst != p.dst || q.port != p.port || string(q.payload) != string(p.payload) {
			t.Fatalf("%+v came back as %+v", p, q)
		}
	})
}
