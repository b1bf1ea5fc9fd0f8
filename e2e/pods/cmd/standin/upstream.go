package main

import (
	"fmt"
	"net"

	"github.com/miekg/dns"
)

// upstreamAnswer is what the stand-in resolver says of every name.
const upstreamAnswer = "203.0.113.80"

func upstream(addr string) error {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		reply := new(dns.Msg).SetReply(q)
		reply.RecursionAvailable = true
		if len(q.Question) == 1 && q.Question[0].Qtype == dns.TypeA {
			reply.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
				A:   net.ParseIP(upstreamAnswer),
			}}
		}
		if err := w.WriteMsg(reply); err != nil {
			fmt.Println("answering:", err)
		}
	})
	errs := make(chan error, 2)
	for _, network := range []string{"udp", "tcp"} {
		server := &dns.Server{Addr: addr, Net: network, Handler: handler}
		go func() { errs <- server.ListenAndServe() }()
	}
	return <-errs
}
