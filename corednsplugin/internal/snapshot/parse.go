package snapshot

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// maxNameLen is a name's longest text form without the trailing dot
// (RFC 1035 section 2.3.4 allows 255 bytes on the wire).
const maxNameLen = 253

// normalise lowers a name, drops a trailing dot and checks it (RFC 1035 section
// 2.3.1, with the underscore that service names carry). A wildcard is a first
// label that is "*" alone (RFC 4592 section 2.1.1).
func normalise(in string, wildcard bool) (string, error) {
	name := strings.TrimSuffix(strings.ToLower(in), ".")
	if name == "" {
		return "", errors.New("empty name")
	}
	if len(name) > maxNameLen {
		return "", fmt.Errorf("%q is longer than %d characters", clip(name), maxNameLen)
	}
	rest := name
	if wildcard {
		rest = strings.TrimPrefix(name, "*.")
	}
	for label := range strings.SplitSeq(rest, ".") {
		if !validLabel(label) {
			return "", fmt.Errorf("%q: bad label %q", clip(name), clip(label))
		}
	}
	return name, nil
}

func validLabel(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for i := range len(l) {
		c := l[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// clip keeps messages short, whatever somebody wrote.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", clip(s))
	}
	if a = a.Unmap(); !a.Is4() {
		return netip.Addr{}, fmt.Errorf("%q is IPv6, which is not supported", clip(s))
	}
	return a, nil
}

// parsePrefix refuses host bits: 192.0.2.5/24 is more likely a typing error
// than a wish.
func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR", clip(s))
	}
	if !p.Addr().Is4() {
		return netip.Prefix{}, fmt.Errorf("%q is IPv6, which is not supported", clip(s))
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q has host bits set", clip(s))
	}
	return p, nil
}

// ParseUpstream reads "198.51.100.53", "198.51.100.53:5353" or "resolv.conf".
func ParseUpstream(s string) (Upstream, error) {
	if s == ResolvConf {
		return Upstream{Node: true}, nil
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return upstreamAt(netip.AddrPortFrom(a, 53), s)
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil || ap.Port() == 0 {
		return Upstream{}, fmt.Errorf("%q is neither an IP address, IP:port nor resolv.conf", clip(s))
	}
	return upstreamAt(ap, s)
}

func upstreamAt(ap netip.AddrPort, s string) (Upstream, error) {
	a := ap.Addr().Unmap()
	if !a.Is4() {
		return Upstream{}, fmt.Errorf("%q is IPv6, which is not supported", clip(s))
	}
	if a.IsUnspecified() || a.IsMulticast() {
		return Upstream{}, fmt.Errorf("%q can be no resolver", clip(s))
	}
	return Upstream{Addr: netip.AddrPortFrom(a, ap.Port())}, nil
}
