package oooi

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// kind says what a name is in one view.
type kind uint8

const (
	kindNone    kind = iota // not owned; only holds a wildcard below it
	kindForward             // explicitly handed to the upstreams, with all below it
	kindEmpty               // exists without data: an empty non-terminal, or NODATA by policy
	kindAddress             // has A records
	kindPointer             // has a PTR record
)

// node is one existing name of a view. Its answers are ready-made wire bytes
// whose owner names are compression pointers (RFC 1035 section 4.1.4) to the
// question, so only the question has to be put before them.
type node struct {
	kind     kind
	wild     *node  // "*" directly below this name (RFC 4592 section 2.1.1)
	covered  bool   // some wildcard above owns this part of the tree
	answer   []byte // answer section of the one type that it has
	count    uint16 // number of records in answer
	zoneLen  int    // wire length of the apex that negative answers name
	isApex   bool   // the name is itself a listed apex
	required bool   // set for owned names, which hosts never replace
}

// tree is one view: every existing name by its wire form in lower case.
type tree map[string]*node

// result is what a lookup came to.
type result struct {
	outcome outcome
	node    *node
	zoneLen int
}

// outcome is what has to be done with a query.
type outcome uint8

const (
	outForward outcome = iota // not ours
	outAnswer                 // the node's records
	outAny                    // the minimal answer to ANY
	outNoData                 // NOERROR, no records, SOA
	outName                   // NXDOMAIN, SOA
	outApex                   // the SOA record itself
)

// wire is a name's uncompressed wire form (RFC 1035 section 3.1).
func wire(name string) string {
	buf := make([]byte, 0, len(name)+2)
	if name != "" {
		for label := range strings.SplitSeq(name, ".") {
			buf = append(buf, byte(len(label)))
			buf = append(buf, label...)
		}
	}
	return string(append(buf, 0))
}

// parent is the wire form without its first label; "" above the root.
func parent(w string) string {
	if len(w) <= 1 {
		return ""
	}
	return w[1+int(w[0]):]
}

// builder compiles one view.
type builder struct {
	tree  tree
	zones map[string]bool
	ttl   uint32
}

// compile builds the view that pick selects from each record.
func compile(c *snapshot.Config, pick func(snapshot.Record) snapshot.View) tree {
	b := builder{tree: make(tree, 2*len(c.Records)+2*len(c.Hosts)), zones: map[string]bool{}, ttl: c.TTL}
	for _, z := range c.Zones {
		b.zones[wire(z)] = true
	}
	for _, r := range c.Records {
		b.record(r.Name, pick(r))
	}
	b.hosts(c.Hosts)
	for w, n := range b.tree {
		n.isApex = b.zones[w] && n.kind != kindNone
		n.covered = b.isCovered(w)
	}
	return b.tree
}

// at returns the node of a name, made if it is not there.
func (b *builder) at(w string) *node {
	n := b.tree[w]
	if n == nil {
		n = &node{}
		b.tree[w] = n
	}
	return n
}

// apex is the longest listed zone that holds the name; a name in none of them
// is its own apex.
func (b *builder) apex(w string) string {
	for p := w; p != ""; p = parent(p) {
		if b.zones[p] {
			return p
		}
	}
	return w
}

func (b *builder) record(name string, v snapshot.View) {
	rest, isWild := strings.CutPrefix(name, "*.")
	w := wire(rest)
	n := b.at(w)
	if isWild {
		// A wildcard can be the whole of an apex of its own: then "*.x" is
		// named by x.
		n.wild = &node{}
		b.fill(n.wild, b.apex(w), v)
		if v.Policy != snapshot.Forward && n.kind == kindNone {
			b.empty(n, b.apex(w))
		}
	} else {
		b.fill(n, b.apex(w), v)
	}
	if v.Policy == snapshot.Forward {
		return
	}
	// Names between an owned name and its apex exist, and are empty (RFC 8020,
	// RFC 4592 section 2.2.2).
	apex := b.apex(w)
	for p := w; p != apex; {
		p = parent(p)
		if a := b.at(p); a.kind == kindNone {
			b.empty(a, apex)
		}
	}
}

func (b *builder) empty(n *node, apex string) {
	n.kind, n.zoneLen, n.required = kindEmpty, len(apex), true
}

func (b *builder) fill(n *node, apex string, v snapshot.View) {
	switch v.Policy {
	case snapshot.Answer:
		n.kind = kindAddress
		n.answer, n.count = addressRecords(v.Addresses, b.ttl), uint16(len(v.Addresses))
	case snapshot.NoData:
		n.kind = kindEmpty
	default:
		n.kind = kindForward
		return
	}
	n.zoneLen, n.required = len(apex), true
}

// hosts adds worker names and their reverse names. A name that is owned already
// stays as it is, and nothing then points back at it.
func (b *builder) hosts(hosts []snapshot.Host) {
	for i := 0; i < len(hosts); {
		j := i + 1
		for j < len(hosts) && hosts[j].Name == hosts[i].Name {
			j++
		}
		b.host(hosts[i:j])
		i = j
	}
}

func (b *builder) host(same []snapshot.Host) {
	w := wire(same[0].Name)
	if n := b.tree[w]; n != nil && (n.required || n.kind == kindForward) || b.isCovered(w) {
		return
	}
	addrs := make([]netip.Addr, 0, len(same))
	for _, h := range same {
		if len(addrs) < snapshot.MaxAddresses {
			addrs = append(addrs, h.Address)
		}
		b.pointer(h.Address, w)
	}
	n := b.at(w)
	n.kind, n.zoneLen = kindAddress, len(b.apex(w))
	n.answer, n.count = addressRecords(addrs, b.ttl), uint16(len(addrs))
}

// pointer adds the PTR record of an address. Where two names claim one address
// the first in sorted order has it.
func (b *builder) pointer(a netip.Addr, target string) {
	w := wire(reverseName(a))
	if b.tree[w] != nil {
		return
	}
	n := b.at(w)
	n.kind, n.count, n.zoneLen = kindPointer, 1, len(parent(w))
	n.answer = appendRecord(nil, dns.TypePTR, b.ttl, []byte(target))
}

// isCovered says whether a wildcard above the name owns the tree there.
func (b *builder) isCovered(w string) bool {
	for p := parent(w); p != ""; p = parent(p) {
		if a := b.tree[p]; a != nil && a.wild != nil {
			return a.wild.kind == kindAddress || a.wild.kind == kindEmpty
		}
	}
	return false
}

func reverseName(a netip.Addr) string {
	name, _ := dns.ReverseAddr(a.String()) // an IPv4 address always has one
	return strings.TrimSuffix(name, ".")
}

// questionPointer is a compression pointer to the name right after the header.
const questionPointer = 0xC000 | headerLen

func addressRecords(addrs []netip.Addr, ttl uint32) []byte {
	var out []byte
	for _, a := range addrs {
		raw := a.As4()
		out = appendRecord(out, dns.TypeA, ttl, raw[:])
	}
	return out
}

// appendRecord appends a record owned by the question's name
// (RFC 1035 section 3.2.1).
func appendRecord(out []byte, rrtype uint16, ttl uint32, data []byte) []byte {
	out = binary.BigEndian.AppendUint16(out, questionPointer)
	out = binary.BigEndian.AppendUint16(out, rrtype)
	out = binary.BigEndian.AppendUint16(out, dns.ClassINET)
	out = binary.BigEndian.AppendUint32(out, ttl)
	out = binary.BigEndian.AppendUint16(out, uint16(len(data)))
	return append(out, data...)
}

// find looks a question up. low is the name's wire form in lower case. It
// allocates nothing.
func (t tree) find(low []byte, qtype uint16, cidr netip.Prefix) result {
	if n := t[string(low)]; n != nil && n.kind != kindNone {
		return n.reply(qtype)
	}
	for off := 0; low[off] != 0; {
		off += 1 + int(low[off])
		n := t[string(low[off:])]
		if n == nil || n.kind == kindNone && n.wild == nil {
			continue
		}
		// n is the closest encloser (RFC 4592 section 3.3.1): its wildcard
		// answers, or nothing below it exists.
		switch {
		case n.wild != nil:
			return n.wild.reply(qtype)
		case n.kind == kindForward || !n.covered:
			return reverse(low, cidr)
		default:
			return result{outcome: outName, node: n, zoneLen: n.zoneLen}
		}
	}
	return reverse(low, cidr)
}

// reply is what a node answers to a type.
func (n *node) reply(qtype uint16) result {
	r := result{outcome: outNoData, node: n, zoneLen: n.zoneLen}
	switch {
	case n.kind == kindForward:
		r.outcome = outForward
	case n.isApex && qtype == dns.TypeSOA:
		r.outcome = outApex
	case n.kind == kindEmpty:
	case qtype == dns.TypeANY:
		r.outcome = outAny
	case qtype == dns.TypeA && n.kind == kindAddress, qtype == dns.TypePTR && n.kind == kindPointer:
		r.outcome = outAnswer
	}
	return r
}
