package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/corednsplugin/internal/agentpb"
)

// Reasons of problems that a snapshot itself can have.
const (
	// ReasonInvalidRecord: a record was left out.
	ReasonInvalidRecord = "InvalidRecord"
	// ReasonInvalidHost: a worker's name or address was left out.
	ReasonInvalidHost = "InvalidHost"
	// ReasonInvalidZone: a zone apex was left out.
	ReasonInvalidZone = "InvalidZone"
	// ReasonInvalidSource: a source CIDR was left out.
	ReasonInvalidSource = "InvalidSource"
	// ReasonInvalidUpstream: an upstream was left out.
	ReasonInvalidUpstream = "InvalidUpstream"
)

// MaxTTL is the longest TTL of an answer of ours, and the default.
const MaxTTL = 30

// MaxAddresses bounds one record set, so that every answer of ours fits into
// 512 bytes: clients that know no EDNS and ignore TC (musl) get all of it.
// 12 header + 255 name + 4 + 8 * 16 + 11 OPT = 410.
const MaxAddresses = 8

// ResolvConf is the upstream that stands for the node's resolvers.
const ResolvConf = "resolv.conf"

// ErrNoDNS is returned for a snapshot that holds no DNS configuration.
var ErrNoDNS = errors.New("snapshot holds no DNS configuration")

// Config is one parsed snapshot. It is never changed after Parse.
type Config struct {
	Version   string
	Child     Child
	CIDR      netip.Prefix
	ServerIP  netip.Addr
	Sources   []netip.Prefix // the CIDR first, then the additional ones, sorted
	Zones     []string       // lower case, no trailing dot, sorted
	Records   []Record       // sorted by name
	Hosts     []Host         // sorted by name, then address
	Upstreams []Upstream     // in the order of the snapshot
	TTL       uint32
	Own       []netip.Addr // addresses that are ourselves, sorted
	Problems  []Problem    // sorted
}

// Child names the resource that the snapshot was made from; zero where there
// is no cluster.
type Child struct {
	Namespace, Name, UID string
	Generation           int64
}

// Policy says what a view does with a name.
type Policy int

// The policies of a view. The zero value is Forward: a name without a policy is
// not owned.
const (
	Forward Policy = iota
	NoData
	Answer
)

// Record is an owned name in both views.
type Record struct {
	Name      string
	VLAN, Pod View
}

// View is what one view does with a record.
type View struct {
	Policy    Policy
	Addresses []netip.Addr
}

// Host is a worker VM.
type Host struct {
	Name    string
	Address netip.Addr
}

// Upstream is either an address or, with Node set, the node's resolvers.
type Upstream struct {
	Addr netip.AddrPort
	Node bool
}

// Problem is something that the user can mend. Messages hold nothing volatile.
type Problem struct {
	Reason, Message string
}

// SortProblems sorts by reason, then message, and drops repetitions.
func SortProblems(in []Problem) []Problem {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(out)
}

// Parse checks and normalises a snapshot.
func Parse(s *agentpb.Snapshot) (Config, error) {
	dns := s.GetDns()
	if dns == nil {
		return Config{}, ErrNoDNS
	}
	v, err := version(s)
	if err != nil {
		return Config{}, err
	}
	c := Config{Version: v, TTL: clampTTL(dns.GetTtlSeconds())}
	if ch := s.GetChild(); ch != nil {
		c.Child = Child{Namespace: ch.GetNamespace(), Name: ch.GetName(), UID: ch.GetUid(), Generation: ch.GetGeneration()}
	}
	if c.CIDR, err = parsePrefix(dns.GetCidr()); err != nil {
		return Config{}, fmt.Errorf("cidr: %w", err)
	}
	if c.ServerIP, err = parseAddr(dns.GetServerIp()); err != nil {
		return Config{}, fmt.Errorf("serverIp: %w", err)
	}
	if !c.CIDR.Contains(c.ServerIP) {
		return Config{}, fmt.Errorf("serverIp %s is not inside cidr %s", c.ServerIP, c.CIDR)
	}
	c.addSources(dns.GetAdditionalSourceCidrs())
	c.addZones(dns.GetZones())
	c.addRecords(dns.GetRecords())
	c.addHosts(dns.GetHosts())
	c.addUpstreams(dns.GetUpstreams())
	c.addOwn(dns.GetOwnAddresses())
	c.Problems = SortProblems(c.Problems)
	return c, nil
}

func clampTTL(seconds uint32) uint32 {
	if seconds == 0 || seconds > MaxTTL {
		return MaxTTL
	}
	return seconds
}

func (c *Config) problem(reason, format string, args ...any) {
	c.Problems = append(c.Problems, Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (c *Config) addSources(in []string) {
	extra := make([]netip.Prefix, 0, len(in))
	for _, s := range in {
		p, err := parsePrefix(s)
		if err != nil {
			c.problem(ReasonInvalidSource, "additionalSourceCIDRs: %v", err)
			continue
		}
		extra = append(extra, p)
	}
	slices.SortFunc(extra, comparePrefix)
	c.Sources = append([]netip.Prefix{c.CIDR}, slices.Compact(extra)...)
}

func (c *Config) addZones(in []string) {
	for _, s := range in {
		name, err := normalise(s, false)
		if err != nil {
			c.problem(ReasonInvalidZone, "zones: %v", err)
			continue
		}
		c.Zones = append(c.Zones, name)
	}
	slices.Sort(c.Zones)
	c.Zones = slices.Compact(c.Zones)
}

func (c *Config) addRecords(in []*agentpb.DNSRecord) {
	for _, r := range in {
		rec, err := parseRecord(r)
		if err != nil {
			c.problem(ReasonInvalidRecord, "records: %v", err)
			continue
		}
		c.Records = append(c.Records, rec)
	}
	slices.SortFunc(c.Records, compareRecord)
	// Two records of one name are a fault of whoever wrote the snapshot; the
	// first in sorted order counts, so the outcome does not depend on order.
	out := c.Records[:0]
	for i, r := range c.Records {
		if i > 0 && len(out) > 0 && out[len(out)-1].Name == r.Name {
			if compareRecord(out[len(out)-1], r) != 0 {
				c.problem(ReasonInvalidRecord, "records: %q is there more than once with different content", r.Name)
			}
			continue
		}
		out = append(out, r)
	}
	c.Records = out
}

func parseRecord(r *agentpb.DNSRecord) (Record, error) {
	name, err := normalise(r.GetName(), true)
	if err != nil {
		return Record{}, err
	}
	out := Record{Name: name}
	if out.VLAN, err = parseView(r.GetVlan()); err != nil {
		return Record{}, fmt.Errorf("%q, vlan: %w", name, err)
	}
	if out.Pod, err = parseView(r.GetPod()); err != nil {
		return Record{}, fmt.Errorf("%q, pod: %w", name, err)
	}
	return out, nil
}

func parseView(v *agentpb.DNSView) (View, error) {
	switch v.GetPolicy() {
	case agentpb.DNSPolicy_DNS_POLICY_ANSWER:
	case agentpb.DNSPolicy_DNS_POLICY_NODATA:
		return View{Policy: NoData}, nil
	case agentpb.DNSPolicy_DNS_POLICY_FORWARD, agentpb.DNSPolicy_DNS_POLICY_UNSPECIFIED:
		return View{Policy: Forward}, nil
	default:
		return View{}, fmt.Errorf("unknown policy %d", v.GetPolicy())
	}
	out := View{Policy: Answer}
	for _, s := range v.GetAddresses() {
		a, err := parseAddr(s)
		if err != nil {
			return View{}, err
		}
		out.Addresses = append(out.Addresses, a)
	}
	slices.SortFunc(out.Addresses, netip.Addr.Compare)
	out.Addresses = slices.Compact(out.Addresses)
	if len(out.Addresses) == 0 {
		return View{}, errors.New("policy Answer without an address")
	}
	if len(out.Addresses) > MaxAddresses {
		return View{}, fmt.Errorf("more than %d addresses", MaxAddresses)
	}
	return out, nil
}

func (c *Config) addHosts(in []*agentpb.DNSHost) {
	for _, h := range in {
		name, err := normalise(h.GetName(), false)
		if err != nil {
			c.problem(ReasonInvalidHost, "hosts: %v", err)
			continue
		}
		a, err := parseAddr(h.GetAddress())
		if err != nil {
			c.problem(ReasonInvalidHost, "hosts: %q: %v", name, err)
			continue
		}
		if !c.CIDR.Contains(a) {
			c.problem(ReasonInvalidHost, "hosts: %q: %s is not inside %s", name, a, c.CIDR)
			continue
		}
		c.Hosts = append(c.Hosts, Host{Name: name, Address: a})
	}
	slices.SortFunc(c.Hosts, func(a, b Host) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Address.Compare(b.Address))
	})
	c.Hosts = slices.Compact(c.Hosts)
}

func (c *Config) addUpstreams(in []string) {
	for _, s := range in {
		u, err := ParseUpstream(s)
		if err != nil {
			c.problem(ReasonInvalidUpstream, "upstreams: %v", err)
			continue
		}
		if !slices.Contains(c.Upstreams, u) {
			c.Upstreams = append(c.Upstreams, u)
		}
	}
}

func (c *Config) addOwn(in []string) {
	for _, s := range in {
		// Whatever does not parse cannot be an upstream either.
		if a, err := parseAddr(s); err == nil {
			c.Own = append(c.Own, a)
		}
	}
	slices.SortFunc(c.Own, netip.Addr.Compare)
	c.Own = slices.Compact(c.Own)
}

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

func compareRecord(a, b Record) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), compareView(a.VLAN, b.VLAN), compareView(a.Pod, b.Pod))
}

func compareView(a, b View) int {
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), slices.CompareFunc(a.Addresses, b.Addresses, netip.Addr.Compare))
}
