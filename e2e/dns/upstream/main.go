// Command upstream is a resolver for the tests: it answers every question but those
// for slow names, says each one on stdout, and would betray any name that should
// not have reached it.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:53", "address")
	ip := flag.String("answer", "198.51.100.9", "the address that every name has")
	flag.Parse()
	errs := make(chan error)
	for _, network := range []string{"udp", "tcp"} {
		go func() {
			errs <- (&dns.Server{Addr: *listen, Net: network, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
				serve(w, q, *ip)
			})}).ListenAndServe()
		}()
	}
	fmt.Fprintln(os.Stderr, <-errs)
	os.Exit(1)
}

func serve(w dns.ResponseWriter, q *dns.Msg, ip string) {
	question := q.Question[0]
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	hdr := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: 3600}
	name := strings.ToLower(question.Name)
	if name != "." { // a health check
		_, _ = fmt.Fprintln(os.Stdout, "QUERY", name, dns.TypeToString[question.Qtype])
	}
	if strings.HasPrefix(name, "slow") {
		return // for so long that it may as well be for ever
	}
	if strings.Contains(name, "nosuch") {
		m.Rcode = dns.RcodeNameError
		m.Ns = append(m.Ns, &dns.SOA{
			Hdr: dns.RR_Header{Name: "test.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 3600},
			Ns:  "ns.test.", Mbox: "root.test.", Serial: 1, Refresh: 1, Retry: 1, Expire: 1, Minttl: 3600,
		})
	} else {
		m.Answer = records(hdr, name, net.ParseIP(ip))
	}
	if o := q.IsEdns0(); o != nil {
		m.SetEdns0(1232, o.Do())
	}
	if _, isUDP := w.RemoteAddr().(*net.UDPAddr); isUDP {
		size := dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = max(int(o.UDPSize()), size)
		}
		m.Truncate(size)
	}
	_ = w.WriteMsg(m)
}

// records are what a name has of a type.
func records(hdr dns.RR_Header, name string, ip net.IP) []dns.RR {
	switch hdr.Rrtype {
	case dns.TypeA:
		return []dns.RR{&dns.A{Hdr: hdr, A: ip}}
	case dns.TypeAAAA:
		if strings.HasPrefix(name, "v4only") {
			return nil
		}
		return []dns.RR{&dns.AAAA{Hdr: hdr, AAAA: net.ParseIP("2001:db8::bad")}}
	case dns.TypeTXT:
		return slices.Repeat([]dns.RR{&dns.TXT{Hdr: hdr, Txt: []string{strings.Repeat("x", 250)}}}, 12)
	case dns.TypeHTTPS:
		return []dns.RR{&dns.HTTPS{SVCB: dns.SVCB{
			Hdr: hdr, Priority: 1, Target: ".", Value: []dns.SVCBKeyValue{&dns.SVCBIPv4Hint{Hint: []net.IP{ip}}},
		}}}
	}
	return nil
}
