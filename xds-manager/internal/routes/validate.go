package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

const (
	// maxName keeps an Envoy statistic's name within its default of 512 bytes.
	maxName = 253
	// widestSource bounds what one prefix expands to: 4,096 addresses.
	widestSource = 20
	// maxSources bounds what all backends of a table expand to together: the
	// addresses of a /15, twice what a VLAN of the widest sensible size holds.
	maxSources = 1 << 17
)

// Validate answers with the table that can be served and with everything that
// had to be left out of it. The result's backends are sorted by name, their
// sources are single addresses, and it is never an error: what is wrong with
// one backend is that backend's problem.
func (t Table) Validate() (Table, []Problem) {
	v := &validation{table: t}
	out := t
	out.Reserved = slices.Clone(t.Reserved)
	slices.SortFunc(out.Reserved, netip.Addr.Compare)
	out.Reserved = slices.Compact(out.Reserved)
	out.Backends = v.each(t.Backends)
	out.Backends = v.dropDuplicateNames(out.Backends)
	out.Backends = v.dropPortConflicts(out.Backends)
	out.Backends = v.dropCollisions(out.Backends)
	v.resolveSources(out.Backends)
	out.External = v.external(out)
	if len(t.Backends) > 0 && len(out.Backends) == 0 {
		v.add("", ReasonNoValidBackend, "no backend of %d is valid", len(t.Backends))
	}
	return out, SortProblems(v.problems)
}

type validation struct {
	table    Table
	problems []Problem
	sources  int
}

func (v *validation) add(object, reason, format string, args ...any) {
	v.problems = append(v.problems, Problem{Object: object, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// each keeps the backends that are right on their own, sorted and normalised.
func (v *validation) each(in []Backend) []Backend {
	sorted := slices.Clone(in)
	slices.SortStableFunc(sorted, func(a, b Backend) int { return cmp.Compare(a.Name, b.Name) })
	out := make([]Backend, 0, len(in))
	for _, b := range sorted {
		if err := v.backend(b); err != nil {
			v.add(b.Name, ReasonInvalidBackend, "backend %q: %v", b.Name, err)
			continue
		}
		b.Scoped = b.Scoped || len(b.Sources) > 0
		b.Hostnames = sortedUnique(b.Hostnames)
		b.Endpoints = slices.Clone(b.Endpoints)
		slices.SortFunc(b.Endpoints, compareEndpoints)
		b.Endpoints = slices.Compact(b.Endpoints)
		out = append(out, b)
	}
	return out
}

func compareEndpoints(a, b Endpoint) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
}

func sortedUnique(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}

func (v *validation) backend(b Backend) error {
	if err := checkName(b.Name); err != nil {
		return err
	}
	if err := CheckPort(b.Port); err != nil {
		return err
	}
	if err := checkShape(b); err != nil {
		return err
	}
	for _, h := range b.Hostnames {
		if err := CheckHostname(h, true); err != nil {
			return err
		}
	}
	for _, p := range b.Sources {
		if err := v.source(p); err != nil {
			return err
		}
	}
	if len(b.Endpoints) == 0 {
		return fmt.Errorf("it has no endpoint")
	}
	for _, e := range b.Endpoints {
		if err := v.endpoint(e); err != nil {
			return err
		}
	}
	return nil
}

// checkShape holds the table of the contract: which protocol goes with names.
func checkShape(b Backend) error {
	switch {
	case b.Protocol != TLS && b.Protocol != HTTP && b.Protocol != TCP:
		return fmt.Errorf("its protocol is none of TLS, HTTP and TCP")
	case b.Protocol == HTTP && len(b.Hostnames) == 0:
		return fmt.Errorf("HTTP needs host names")
	case b.Protocol == HTTP && len(b.Sources) > 0:
		return fmt.Errorf("HTTP takes no source ranges")
	case b.Protocol == TCP && len(b.Hostnames) > 0:
		return fmt.Errorf("TCP takes no host names")
	default:
		return nil
	}
}

func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("its name has %d bytes, want 1 to %d", len(name), maxName)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-._/", r) {
			return fmt.Errorf("its name holds %q, want lower case letters, digits and - . _ /", r)
		}
	}
	return nil
}

// CheckPort refuses the ports that the pod itself listens on: DNS does not
// live here, 9090 to 9099 are the agents', 9901 is Envoy's statistics.
func CheckPort(p uint16) error {
	switch {
	case p == 0:
		return fmt.Errorf("port 0 is no port")
	case p == 53 || p == 9901 || (p >= 9090 && p <= 9099):
		return fmt.Errorf("port %d is reserved", p)
	default:
		return nil
	}
}

// CheckHostname takes a lower-case RFC 1123 name without a trailing dot, and
// "*.name" where a wildcard may stand. Envoy lowers a client's server name
// (RFC 6066 section 3 compares without case) but never the configured one.
func CheckHostname(h string, wildcard bool) error {
	name := h
	if rest, ok := strings.CutPrefix(h, "*."); ok && wildcard {
		name = rest
	}
	if name == "" || len(h) > 253 {
		return fmt.Errorf("host name %q has %d bytes, want 1 to 253", h, len(h))
	}
	for label := range strings.SplitSeq(name, ".") {
		if !validLabel(label) {
			return fmt.Errorf("host name %q is no lower-case RFC 1123 name", h)
		}
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return fmt.Errorf("host name %q is an address", h)
	}
	return nil
}

func validLabel(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for i := range len(l) {
		c := l[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func (v *validation) source(p netip.Prefix) error {
	switch {
	case !p.IsValid() || !p.Addr().Is4():
		return fmt.Errorf("source range %q is no IPv4 prefix", p)
	case p != p.Masked():
		return fmt.Errorf("source range %q has host bits", p)
	case p.Bits() < widestSource:
		return fmt.Errorf("source range %q is wider than /%d", p, widestSource)
	case !v.table.CIDR.Contains(p.Addr()) || p.Bits() < v.table.CIDR.Bits():
		return fmt.Errorf("source range %q is not inside %s", p, v.table.CIDR)
	}
	v.sources += 1 << (32 - p.Bits())
	if v.sources > maxSources {
		return fmt.Errorf("source ranges of all backends hold more than %d addresses", maxSources)
	}
	return nil
}

func (v *validation) endpoint(e Endpoint) error {
	if e.Port == 0 {
		return fmt.Errorf("an endpoint has port 0")
	}
	if e.Host != "" {
		if e.Addr.IsValid() {
			return fmt.Errorf("endpoint %q has an address too", e.Host)
		}
		return CheckHostname(e.Host, false)
	}
	switch {
	case !e.Addr.Is4() || e.Addr.IsUnspecified() || e.Addr.IsMulticast() || e.Addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("endpoint %q is no IPv4 unicast address", e.Addr)
	case e.Addr == v.table.ServerIP:
		return fmt.Errorf("endpoint %q is the proxy itself", e.Addr)
	default:
		return nil
	}
}
