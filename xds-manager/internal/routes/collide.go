package routes

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// dropDuplicateNames excludes every backend whose name another one has too:
// the name is the cluster's, and which of the two is meant nobody can say.
func (v *validation) dropDuplicateNames(in []Backend) []Backend {
	count := map[string]int{}
	for _, b := range in {
		count[b.Name]++
	}
	return slices.DeleteFunc(in, func(b Backend) bool {
		if count[b.Name] < 2 {
			return false
		}
		v.add(b.Name, ReasonDuplicateBackend, "backend name %q is used %d times", b.Name, count[b.Name])
		return true
	})
}

// dropPortConflicts excludes HTTP backends from a port that also carries
// connections: one listener cannot do both.
func (v *validation) dropPortConflicts(in []Backend) []Backend {
	stream := map[uint16]bool{}
	for _, b := range in {
		if b.Protocol != HTTP {
			stream[b.Port] = true
		}
	}
	return slices.DeleteFunc(in, func(b Backend) bool {
		if b.Protocol != HTTP || !stream[b.Port] {
			return false
		}
		v.add(b.Name, ReasonPortConflict, "backend %q: port %d carries TLS or TCP too", b.Name, b.Port)
		return true
	})
}

// matchKey is what a client can say: a name on a port, none in TLS, or
// anything at all.
type matchKey struct {
	port uint16
	tls  bool
	name string
}

func (b Backend) keys() []matchKey {
	if len(b.Hostnames) == 0 {
		return []matchKey{{port: b.Port, tls: b.Protocol == TLS}}
	}
	out := make([]matchKey, 0, len(b.Hostnames))
	for _, h := range b.Hostnames {
		out = append(out, matchKey{port: b.Port, tls: true, name: h})
	}
	return out
}

// dropCollisions excludes every unscoped backend that takes what another
// unscoped one takes.
func (v *validation) dropCollisions(in []Backend) []Backend {
	takers := map[matchKey][]string{}
	for _, b := range in {
		if b.Scoped {
			continue
		}
		for _, k := range b.keys() {
			takers[k] = append(takers[k], b.Name)
		}
	}
	lost := map[string]bool{}
	for k, names := range takers {
		if len(names) < 2 {
			continue
		}
		for _, n := range names {
			lost[n] = true
		}
		reason, what := ReasonDuplicateHostname, fmt.Sprintf("host name %q on port %d", k.name, k.port)
		if k.name == "" {
			reason, what = ReasonAmbiguousFallback, fmt.Sprintf("port %d without a name", k.port)
		}
		v.add(names[0], reason, "%s is claimed by %s", what, quoteAll(names))
	}
	return slices.DeleteFunc(in, func(b Backend) bool { return lost[b.Name] })
}

func quoteAll(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, ", ")
}

type sourceKey struct {
	matchKey
	addr netip.Addr
}

type claim struct {
	backend string
	bits    int
}

// resolveSources turns source ranges into addresses. The longest prefix wins;
// an address that two backends claim alike is taken from both, and from
// nothing but those two.
func (v *validation) resolveSources(bs []Backend) {
	claims := map[sourceKey][]claim{}
	for _, b := range bs {
		for _, k := range b.keys() {
			for _, p := range b.Sources {
				for a := range addresses(p) {
					sk := sourceKey{k, a}
					claims[sk] = append(claims[sk], claim{b.Name, p.Bits()})
				}
			}
		}
	}
	lost := map[string]map[netip.Addr]bool{}
	lose := func(backend string, a netip.Addr) {
		if lost[backend] == nil {
			lost[backend] = map[netip.Addr]bool{}
		}
		lost[backend][a] = true
	}
	for sk, cs := range claims {
		v.judge(sk.addr, cs, lose)
	}
	for i := range bs {
		bs[i].Sources = expand(bs[i].Sources, lost[bs[i].Name])
	}
}

func (v *validation) judge(addr netip.Addr, cs []claim, lose func(string, netip.Addr)) {
	longest := slices.MaxFunc(cs, func(a, b claim) int { return cmp.Compare(a.bits, b.bits) }).bits
	best := map[string]bool{}
	for _, c := range cs {
		if c.bits == longest {
			best[c.backend] = true
		}
	}
	for _, c := range cs {
		if !best[c.backend] || len(best) > 1 {
			lose(c.backend, addr)
		}
	}
	if len(best) > 1 {
		names := slices.Sorted(maps.Keys(best))
		v.add(names[0], ReasonDuplicateSourceIP, "source %s is claimed by %s", addr, quoteAll(names))
	}
}

// expand lists the addresses of prefixes as sorted single-address prefixes.
func expand(ps []netip.Prefix, without map[netip.Addr]bool) []netip.Prefix {
	if len(ps) == 0 {
		return nil
	}
	out := make([]netip.Prefix, 0, len(ps))
	for _, p := range ps {
		for a := range addresses(p) {
			if !without[a] {
				out = append(out, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return slices.Compact(out)
}

// addresses yields every address of a prefix.
func addresses(p netip.Prefix) func(func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		for a := p.Masked().Addr(); a.IsValid() && p.Contains(a); a = a.Next() {
			if !yield(a) {
				return
			}
		}
	}
}

// external keeps the external listeners that lie on ports of their own, with
// the backends that they may have: names of TLS, from any source.
func (v *validation) external(t Table) []External {
	index := t.index()
	used := map[uint16]int{}
	names := map[string]int{}
	for _, b := range t.Backends {
		if b.PodSide && b.namesOnly() {
			used[b.Port] = 2
		}
	}
	for _, e := range t.External {
		used[e.Port]++
		names[e.Name]++
	}
	var out []External
	for _, e := range t.External {
		if err := checkExternal(e, used, names); err != nil {
			v.add(e.Name, ReasonInvalidListener, "external listener %q: %v", e.Name, err)
			continue
		}
		keep := External{Name: e.Name, Port: e.Port}
		for _, name := range sortedUnique(e.Backends) {
			i, ok := index[name]
			if !ok || t.Backends[i].Protocol != TLS || !t.Backends[i].namesOnly() {
				v.add(e.Name, ReasonInvalidListener, "external listener %q: %q is no valid TLS backend with host names", e.Name, name)
				continue
			}
			keep.Backends = append(keep.Backends, name)
		}
		if len(keep.Backends) > 0 {
			out = append(out, keep)
		}
	}
	slices.SortFunc(out, func(a, b External) int { return cmp.Compare(a.Name, b.Name) })
	return v.dropExternalCollisions(t, out, index)
}

// dropExternalCollisions leaves out external listeners whose backends, which
// may come from different ports, claim one name.
func (v *validation) dropExternalCollisions(t Table, in []External, index map[string]int) []External {
	return slices.DeleteFunc(in, func(e External) bool {
		owner := map[string]string{}
		for _, name := range e.Backends {
			for _, h := range t.Backends[index[name]].Hostnames {
				if other, ok := owner[h]; ok {
					v.add(e.Name, ReasonInvalidListener, "external listener %q: %q and %q both claim %q", e.Name, other, name, h)
					return true
				}
				owner[h] = name
			}
		}
		return false
	})
}

func checkExternal(e External, used map[uint16]int, names map[string]int) error {
	if err := checkName(e.Name); err != nil {
		return err
	}
	if err := CheckPort(e.Port); err != nil {
		return err
	}
	if names[e.Name] > 1 {
		return fmt.Errorf("its name is used %d times", names[e.Name])
	}
	if used[e.Port] > 1 {
		return fmt.Errorf("port %d is used by another listener", e.Port)
	}
	return nil
}
