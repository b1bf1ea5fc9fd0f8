// Command upstream is a resolver for the tests: it answers every question, says
// each one on stdout, and would betray any name that should not have reached it.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
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
	switch {
	case strings.Contains(name, "nosuch"):
		m.Rcode = dns.RcodeNameError
		m.Ns = append(m.Ns, &dns.SOA{
			Hdr: dns.RR_Header{Name: "test.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 3600},
			Ns:  "ns.test.", Mbox: "root.test.", Serial: 1, Refresh: 1, Retry: 1, Expire: 1, Minttl: 3600,
		})
	case question.Qtype == dns.TypeA:
		m.Answer = append(m.Answer, &dns.A{Hdr: hdr, A: net.ParseIP(ip)})
	case question.Qtype == dns.TypeAAAA && !strings.HasPrefix(name, "v4only"):
		m.Answer = append(m.Answer, &dns.AAAA{Hdr: hdr, AAAA: net.ParseIP("2001:db8::bad")})
	case question.Qtype == dns.TypeTXT:
		for range 12 {
			m.Answer = append(m.Answer, &dns.TXT{Hdr: hdr, Txt: []string{strings.Repeat("x", 250)}})
		}
	case question.Qtype == dns.TypeHTTPS:
		m.Answer = append(m.Answer, &dns.HTTPS{SVCB: dns.SVCB{
			Hdr: hdr, Priority: 1, Target: ".",
			Value: []dns.SVCBKeyValue{&dns.SVCBIPv4Hint{Hint: []net.IP{net.ParseIP(ip)}}},
		}})
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
