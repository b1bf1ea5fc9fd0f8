package actor

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// Resolver is the part of resolve: a resolver that knows a few names, says
// NXDOMAIN to all others with a negative TTL of an hour, and writes every name
// that it is asked for to stdout.
type Resolver struct {
	Address string
	// Names maps names without trailing dot to IPv4 addresses.
	Names map[string]string
}

func resolve(ctx context.Context, part Resolver, log io.Writer) error {
	var mu sync.Mutex
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		mu.Lock()
		for _, q := range query.Question {
			fmt.Fprintln(log, strings.ToLower(strings.TrimSuffix(q.Name, ".")))
		}
		mu.Unlock()
		// A client that has gone away is no fault of the resolver's.
		_ = w.WriteMsg(part.reply(query))
	})
	packets, err := new(net.ListenConfig).ListenPacket(ctx, "udp4", part.Address)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", part.Address)
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- (&dns.Server{PacketConn: packets, Handler: handler}).ActivateAndServe() }()
	go func() { ended <- (&dns.Server{Listener: listener, Handler: handler}).ActivateAndServe() }()
	return <-ended
}

func (r Resolver) reply(query *dns.Msg) *dns.Msg {
	reply := new(dns.Msg).SetReply(query)
	reply.RecursionAvailable = true
	if opt := query.IsEdns0(); opt != nil {
		reply.SetEdns0(dns.DefaultMsgSize, opt.Do())
	}
	if len(query.Question) != 1 {
		reply.Rcode = dns.RcodeFormatError
		return reply
	}
	q := query.Question[0]
	address, known := r.Names[strings.ToLower(strings.TrimSuffix(q.Name, "."))]
	switch {
	case known && q.Qtype == dns.TypeA:
		reply.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300},
			A:   net.ParseIP(address),
		}}
	case !known:
		reply.Rcode = dns.RcodeNameError
		reply.Ns = []dns.RR{&dns.SOA{
			Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 3600},
			Ns:  "ns.invalid.", Mbox: "nobody.invalid.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: 3600,
		}}
	}
	return reply
}
