package oooi

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

func only(name, address string) snapshot.Record {
	v := snapshot.View{Policy: snapshot.Forward}
	switch address {
	case "":
		v.Policy = snapshot.NoData
	case "forward":
	default:
		v = snapshot.View{Policy: snapshot.Answer, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	return snapshot.Record{Name: name, VLAN: v, Pod: v}
}

func fixture(cidr string, zones []string, records ...snapshot.Record) snapshot.Config {
	p := netip.MustParsePrefix(cidr)
	return snapshot.Config{CIDR: p, ServerIP: p.Addr().Next(), Sources: []netip.Prefix{p}, Zones: zones, Records: records, TTL: 30}
}

// RFC 4592: exact names, empty non-terminals and closest enclosers beside
// wildcards. Hazard 104 and 105.
func TestWildcards(t *testing.T) {
	c := fixture("192.0.2.0/24", []string{"d.test"},
		only("*.apps.d.test", "192.0.2.10"),
		only("console.apps.d.test", "192.0.2.11"),
		only("a.b.apps.d.test", "192.0.2.12"),
		only("*.x.apps.d.test", "192.0.2.13"),
		only("gone.apps.d.test", "forward"),
		only("*.out.apps.d.test", "forward"),
		only("wait.apps.d.test", ""),
		only("*.bare.test", "192.0.2.14"),
		only("*.off.d.test", "forward"),
		only("off.d.test", "forward"),
	)
	c.Hosts = []snapshot.Host{
		{Name: "apps.d.test", Address: netip.MustParseAddr("192.0.2.50")},
		{Name: "off.d.test", Address: netip.MustParseAddr("192.0.2.51")},
		{Name: "vm.apps.d.test", Address: netip.MustParseAddr("192.0.2.52")},
		{Name: "vm.d.test", Address: netip.MustParseAddr("192.0.2.53")},
		{Name: "vm.d.test", Address: netip.MustParseAddr("192.0.2.54")},
		{Name: "vm2.d.test", Address: netip.MustParseAddr("192.0.2.54")},
	}
	o := handler(c, nil)
	for _, tc := range []struct{ name, qname, want string }{
		{"the wildcard", "foo.apps.d.test.", "NOERROR 192.0.2.10"},
		{"the exact name wins", "console.apps.d.test.", "NOERROR 192.0.2.11"},
		{"below an exact name the wildcard does not reach", "x.console.apps.d.test.", "NXDOMAIN soa=d.test."},
		{"an empty non-terminal below a wildcard is empty", "b.apps.d.test.", "NOERROR soa=d.test."},
		{"below it the wildcard does not reach", "c.b.apps.d.test.", "NXDOMAIN soa=d.test."},
		{"the name that makes it", "a.b.apps.d.test.", "NOERROR 192.0.2.12"},
		{"the longer wildcard wins", "y.x.apps.d.test.", "NOERROR 192.0.2.13"},
		{"the longer wildcard's parent is empty", "x.apps.d.test.", "NOERROR soa=d.test."},
		{"a name that is handed on leaves the wildcard", "gone.apps.d.test.", "REFUSED"},
		{"and all below it", "x.gone.apps.d.test.", "REFUSED"},
		{"a wildcard that is handed on leaves the one above", "x.out.apps.d.test.", "REFUSED"},
		{"a name without data below a wildcard stays empty", "wait.apps.d.test.", "NOERROR soa=d.test."},
		{"a wildcard outside all zones has its parent as apex", "x.y.bare.test.", "NOERROR 192.0.2.14"},
		{"and is empty there", "bare.test.", "NOERROR soa=bare.test."},
		{"a wildcard that is handed on makes nothing ours", "x.off.d.test.", "REFUSED"},
		{"a worker never takes an empty non-terminal", "apps.d.test.", "NOERROR soa=d.test."},
		{"a worker never takes a name that is handed on", "off.d.test.", "REFUSED"},
		{"a worker never takes a name below a wildcard", "vm.apps.d.test.", "NOERROR 192.0.2.10"},
		{"a worker with two addresses", "vm.d.test.", "NOERROR 192.0.2.53 192.0.2.54"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, sum(ask(t, o, udp("192.0.2.1", "192.0.2.9"), query(tc.qname, dns.TypeA))))
		})
	}
	for addr, want := range map[string]string{
		"50": "NXDOMAIN soa=2.0.192.in-addr.arpa.", "52": "NXDOMAIN soa=2.0.192.in-addr.arpa.",
		"53": "NOERROR vm.d.test.", "54": "NOERROR vm.d.test.",
	} {
		require.Equal(t, want, sum(ask(t, o, udp("192.0.2.1", "192.0.2.9"), query(addr+".2.0.192.in-addr.arpa.", dns.TypePTR))))
	}
}

// Behaviour D8: reverse names inside the CIDR are never forwarded, whatever its
// length, and those outside always.
func TestReverse(t *testing.T) {
	for _, tc := range []struct{ cidr, qname, want string }{
		{"10.0.0.0/8", "10.in-addr.arpa.", "NOERROR soa=10.in-addr.arpa."},
		{"10.0.0.0/8", "2.1.10.in-addr.arpa.", "NOERROR soa=2.1.10.in-addr.arpa."},
		{"10.0.0.0/8", "3.2.1.10.in-addr.arpa.", "NXDOMAIN soa=2.1.10.in-addr.arpa."},
		{"10.0.0.0/8", "in-addr.arpa.", "REFUSED"},
		{"10.0.0.0/8", "x.10.in-addr.arpa.", "NXDOMAIN soa=10.in-addr.arpa."},
		{"10.4.0.0/14", "10.in-addr.arpa.", "REFUSED"},
		{"10.4.0.0/14", "7.10.in-addr.arpa.", "NOERROR soa=7.10.in-addr.arpa."},
		{"10.4.0.0/14", "8.10.in-addr.arpa.", "REFUSED"},
		{"192.0.2.64/26", "2.0.192.in-addr.arpa.", "REFUSED"},
		{"192.0.2.64/26", "65.2.0.192.in-addr.arpa.", "NXDOMAIN soa=2.0.192.in-addr.arpa."},
		{"192.0.2.64/26", "1.2.0.192.in-addr.arpa.", "REFUSED"},
		{"192.0.2.64/26", "065.2.0.192.in-addr.arpa.", "REFUSED"},
		{"192.0.2.0/24", "256.2.0.192.in-addr.arpa.", "NXDOMAIN soa=2.0.192.in-addr.arpa."},
		{"192.0.2.0/24", `\049.2.0.192.in-addr.arpa.`, "NXDOMAIN soa=2.0.192.in-addr.arpa."},
	} {
		t.Run(tc.qname+" in "+tc.cidr, func(t *testing.T) {
			c := fixture(tc.cidr, nil)
			o := handler(c, nil)
			require.Equal(t, tc.want, sum(ask(t, o, udp(c.ServerIP.String(), c.ServerIP.Next().String()), query(tc.qname, dns.TypePTR))))
		})
	}
}

// Whatever the query's name, the lookup agrees with a plain walk over the
// records as RFC 4592 section 3.3.1 tells it.
func TestLookupAgreesWithAPlainWalk(t *testing.T) {
	labels := []string{"a", "b", "apps", "d"}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test that repeats itself
	name := func(n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = labels[r.IntN(len(labels))]
		}
		return strings.Join(out, ".") + ".z.test"
	}
	for round := range 300 {
		records := map[string]snapshot.Record{}
		for range 1 + r.IntN(5) {
			n := name(1 + r.IntN(3))
			if r.IntN(2) == 0 {
				n = "*." + n
			}
			records[n] = only(n, fmt.Sprintf("192.0.2.%d", 1+r.IntN(250)))
		}
		c := fixture("198.51.100.0/24", []string{"z.test"})
		for _, rec := range records {
			c.Records = append(c.Records, rec)
		}
		tr := compile(&c, func(r snapshot.Record) snapshot.View { return r.VLAN })
		for range 20 {
			q := name(1 + r.IntN(4))
			got := tr.find([]byte(wire(q)), dns.TypeA, c.CIDR)
			require.Equal(t, plainWalk(records, q), got.outcome, "round %d: %s in %v", round, q, records)
		}
	}
}

func plainWalk(records map[string]snapshot.Record, q string) outcome {
	exists := map[string]bool{}
	for n := range records {
		for n != "test" {
			exists[n] = true
			_, n, _ = strings.Cut(n, ".")
		}
	}
	if _, ok := records[q]; ok {
		return outAnswer
	}
	if exists[q] {
		return outNoData
	}
	owned := false
	encloser := ""
	for p := q; p != "test"; {
		_, p, _ = strings.Cut(p, ".")
		if encloser == "" && exists[p] {
			encloser = p
		}
		if _, ok := records["*."+p]; ok {
			owned = true
		}
	}
	if _, ok := records["*."+encloser]; ok {
		return outAnswer
	}
	if owned {
		return outName
	}
	return outForward
}

// Equal content gives equal answers, whatever the order of the lists.
func TestOrderDoesNotMatter(t *testing.T) {
	a := config(t, "snapshot.json")
	b := a
	b.Records = append([]snapshot.Record(nil), a.Records...)
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(b.Records), func(i, j int) { //nolint:gosec // a test that repeats itself
		b.Records[i], b.Records[j] = b.Records[j], b.Records[i]
	})
	require.Equal(t, compile(&a, func(r snapshot.Record) snapshot.View { return r.VLAN }),
		compile(&b, func(r snapshot.Record) snapshot.View { return r.VLAN }))
}
