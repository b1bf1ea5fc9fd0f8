package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// Limits of the lease time: a shorter one is a storm of renewals, and a longer
// one outlives what anybody remembers of the network.
const (
	minLease = time.Minute
	maxLease = lease.MaxLeaseTime
)

// Config is what one server serves.
type Config struct {
	Version    string
	Child      Child
	Prefix     netip.Prefix
	Gateway    netip.Addr
	ServerIP   netip.Addr
	DNS        []netip.Addr
	MTU        uint16 // 0 = unknown
	Options    []Option
	Relays     []netip.Addr
	HostNames  map[lease.MAC]string // of reservations
	Networks   []Network
	Namespaces []string // of virtual machines; "*" = all
	Lease      lease.Settings
	Problems   []Problem
}

// Child is the resource that the configuration was made from.
type Child struct {
	Namespace, Name, UID string
	Generation           int64
}

// Network is a NetworkAttachmentDefinition.
type Network struct{ Namespace, Name string }

// Option is a DHCP option as it goes on the wire.
type Option struct {
	Code  uint8
	Value []byte
}

// Problem is something that a person has to put right. Its message holds
// nothing volatile.
type Problem struct{ Reason, Message string }

// builder collects problems on the way.
type builder struct {
	in  *agentpb.DHCPConfig
	out *Config
}

// From makes the configuration of a snapshot.
func From(s *agentpb.Snapshot) (*Config, error) {
	in := s.GetDhcp()
	if in == nil {
		return nil, ErrNoDHCP
	}
	v, err := version(s)
	if err != nil {
		return nil, err
	}
	c := s.GetChild()
	b := builder{in: in, out: &Config{
		Version: v,
		Child:   Child{Namespace: c.GetNamespace(), Name: c.GetName(), UID: c.GetUid(), Generation: c.GetGeneration()},
	}}
	if err := b.network(); err != nil {
		return nil, err
	}
	b.addresses()
	b.pool()
	b.reservations()
	b.options()
	b.machines()
	slices.SortFunc(b.out.Problems, func(x, y Problem) int {
		return strings.Compare(x.Reason+x.Message, y.Reason+y.Message)
	})
	return b.out, nil
}

func (b *builder) problem(reason, format string, args ...any) {
	b.out.Problems = append(b.out.Problems, Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// network reads what nothing goes without.
func (b *builder) network() error {
	p, err := netip.ParsePrefix(b.in.GetCidr())
	if err != nil || !p.Addr().Is4() {
		return fmt.Errorf("cidr %q: want an IPv4 network such as 192.0.2.0/24", b.in.GetCidr())
	}
	b.out.Prefix = p.Masked()
	if b.out.ServerIP, err = b.host("serverIp", b.in.GetServerIp()); err != nil {
		return err
	}
	if b.out.Gateway, err = b.host("gateway", b.in.GetGateway()); err != nil {
		return err
	}
	return nil
}

func (b *builder) host(field, s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return netip.Addr{}, fmt.Errorf("%s %q: want an IPv4 address", field, s)
	}
	if !b.out.Prefix.Contains(a) {
		return netip.Addr{}, fmt.Errorf("%s %s is outside of %s", field, a, b.out.Prefix)
	}
	return a, nil
}

func (b *builder) addresses() {
	b.out.DNS = b.list("dnsServers", b.in.GetDnsServers())
	b.out.Relays = b.list("relays", b.in.GetRelays())
	if m := b.in.GetMtu(); m > 0 {
		if m < 68 || m > 65535 { // RFC 2132 section 5.1
			b.problem("InvalidConfiguration", "mtu %d is not between 68 and 65535", m)
		} else {
			b.out.MTU = uint16(m)
		}
	}
}

func (b *builder) list(field string, in []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range in {
		a, err := netip.ParseAddr(s)
		if err != nil || !a.Is4() {
			b.problem("InvalidConfiguration", "%s: %q is not an IPv4 address", field, s)
			continue
		}
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

func (b *builder) pool() {
	t := time.Duration(b.in.GetLeaseSeconds()) * time.Second
	if t < minLease || t > maxLease {
		b.problem("InvalidConfiguration", "leaseSeconds %d is not between %d and %d", b.in.GetLeaseSeconds(), int(minLease.Seconds()), int(maxLease.Seconds()))
		t = min(max(t, minLease), maxLease)
	}
	b.out.Lease = lease.Settings{
		Prefix:        b.out.Prefix,
		Reserved:      []netip.Addr{b.out.Gateway, b.out.ServerIP},
		LeaseTime:     t,
		IgnoreUnknown: b.in.GetUnknownClients() == agentpb.UnknownClients_UNKNOWN_CLIENTS_IGNORE,
	}
	if r, ok := b.span("range", b.in.GetRange()); ok {
		if b.out.Prefix.Contains(r.First) && b.out.Prefix.Contains(r.Last) {
			b.out.Lease.Dynamic = r
		} else {
			b.problem("InvalidConfiguration", "range %s-%s is not inside of %s", r.First, r.Last, b.out.Prefix)
		}
	}
	for _, x := range b.in.GetExcludedRanges() {
		if r, ok := b.span("excludedRanges", x); ok {
			b.out.Lease.Excluded = append(b.out.Lease.Excluded, r)
		}
	}
	// Option 6 often names a server of ours that is not ours to give away.
	for _, a := range b.out.DNS {
		if b.out.Prefix.Contains(a) {
			b.out.Lease.Excluded = append(b.out.Lease.Excluded, lease.Range{First: a, Last: a})
		}
	}
}

func (b *builder) span(field string, r *agentpb.AddressRange) (lease.Range, bool) {
	first, err1 := netip.ParseAddr(r.GetStart())
	last, err2 := netip.ParseAddr(r.GetEnd())
	if err1 != nil || err2 != nil || !first.Is4() || !last.Is4() || last.Less(first) {
		b.problem("InvalidConfiguration", "%s: %q-%q is no range of IPv4 addresses", field, r.GetStart(), r.GetEnd())
		return lease.Range{}, false
	}
	return lease.Range{First: first, Last: last}, true
}

func (b *builder) reservations() {
	b.out.Lease.Fixed = map[lease.MAC]netip.Addr{}
	b.out.HostNames = map[lease.MAC]string{}
	taken := map[netip.Addr]bool{b.out.Gateway: true, b.out.ServerIP: true}
	for _, r := range b.in.GetReservations() {
		mac, err := lease.ParseMAC(r.GetMacAddress())
		if err != nil || !mac.Unicast() {
			b.problem("InvalidConfiguration", "reservations: %q is not the address of one station", r.GetMacAddress())
			continue
		}
		ip, err := b.host("reservations", r.GetIp())
		if err != nil {
			b.problem("InvalidConfiguration", "%s", err.Error())
			continue
		}
		if _, twice := b.out.Lease.Fixed[mac]; twice || taken[ip] {
			b.problem("InvalidConfiguration", "reservations: %s and %s: one of them is used twice", mac, ip)
			continue
		}
		taken[ip] = true
		b.out.Lease.Fixed[mac] = ip
		if n := r.GetHostname(); n != "" {
			b.out.HostNames[mac] = n
		}
	}
}

// ours are the options that the server itself decides on; a configured one
// never replaces or repeats them, since clients join repeated options (RFC
// 3396 section 7).
var ours = []uint32{
	0, 1, 3, 6, 12, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 61, 82, 255,
}

func (b *builder) options() {
	seen := map[uint32]bool{}
	for _, o := range b.in.GetOptions() {
		c := o.GetCode()
		switch {
		case c > 254 || slices.Contains(ours, c), c == 26 && b.out.MTU != 0:
			b.problem("InvalidOption", "option %d is decided by the server", c)
		case seen[c]:
			b.problem("InvalidOption", "option %d is there twice", c)
		case len(o.GetValue()) > 255:
			b.problem("InvalidOption", "option %d is longer than 255 bytes", c)
		case c == 121 && !hasDefaultRoute(o.GetValue()):
			// RFC 3442: a client that gets option 121 ignores option 3.
			b.problem("InvalidOption", "option 121 holds no default route, which would take the gateway from every client")
		default:
			b.out.Options = append(b.out.Options, Option{Code: uint8(c), Value: o.GetValue()})
		}
		seen[c] = true
	}
}

// hasDefaultRoute walks the routes of option 121 (RFC 3442): width, the
// significant bytes of the destination, a router of four bytes.
func hasDefaultRoute(v []byte) bool {
	found := false
	for len(v) > 0 {
		width := int(v[0])
		n := 1 + (width+7)/8 + 4
		if width > 32 || len(v) < n {
			return false
		}
		found = found || width == 0
		v = v[n:]
	}
	return found
}

func (b *builder) machines() {
	for _, n := range b.in.GetNetworkAttachments() {
		b.out.Networks = append(b.out.Networks, Network{Namespace: n.GetNamespace(), Name: n.GetName()})
	}
	b.out.Namespaces = slices.Compact(slices.Sorted(slices.Values(b.in.GetVmiNamespaces())))
	if slices.Contains(b.out.Namespaces, "*") {
		b.out.Namespaces = []string{"*"}
	}
	b.out.Lease.Headroom = len(b.out.Networks) > 0 && len(b.out.Namespaces) > 0
}
