package oooi

import (
	"context"
	"sync/atomic"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"
)

const pluginName = "oooi"

var log = clog.NewWithPlugin(pluginName)

// Oooi is the plugin's handler.
type Oooi struct {
	Next plugin.Handler

	options options
	serving atomic.Pointer[serving]
	open    atomic.Bool // listening sockets are bound to their devices
	metrics *metrics
	probes  probes
	shares  shares
}

// Name implements plugin.Handler.
func (o *Oooi) Name() string { return pluginName }

// ServeDNS implements plugin.Handler.
func (o *Oooi) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if !o.open.Load() {
		// Not a word before the sockets are bound to their devices: the query
		// may have come in by the wrong one. The client asks again.
		return dns.RcodeSuccess, nil
	}
	s := o.serving.Load()
	if s == nil {
		o.metrics.count(sides, resultNoSnapshot)
		return dns.RcodeServerFailure, nil
	}
	view, ok := s.admit(address(w.LocalAddr()), address(w.RemoteAddr()))
	if !ok {
		o.metrics.count(view, resultStranger)
		return dns.RcodeRefused, nil
	}
	if rcode := acceptable(r); rcode != dns.RcodeSuccess {
		o.metrics.count(view, resultRefused)
		return rcode, nil
	}
	return o.answer(ctx, w, r, s, view)
}

// acceptable is NOERROR for a query that can be looked up: one question, class
// IN, no transfer (RFC 5936 has a protocol of its own that we do not speak).
func acceptable(r *dns.Msg) int {
	if len(r.Question) != 1 {
		return dns.RcodeFormatError
	}
	if r.Opcode != dns.OpcodeQuery {
		return dns.RcodeNotImplemented
	}
	q := &r.Question[0]
	if q.Qclass != dns.ClassINET || q.Qtype == dns.TypeAXFR || q.Qtype == dns.TypeIXFR {
		return dns.RcodeRefused
	}
	return dns.RcodeSuccess
}

// answer looks the question up and writes what comes of it. An answer of ours
// is written as wire bytes; it allocates nothing.
func (o *Oooi) answer(ctx context.Context, w dns.ResponseWriter, r *dns.Msg, s *serving, view side) (int, error) {
	sc := scratches.Get().(*scratch)
	qlen, err := sc.packName(sc.out[headerLen:], r.Question[0].Name)
	if err != nil {
		scratches.Put(sc)
		o.metrics.count(view, resultRefused)
		return dns.RcodeFormatError, nil
	}
	res := s.views[view].find(sc.low[:qlen], r.Question[0].Qtype, s.config.CIDR)
	if res.outcome == outForward {
		back := o.probes.caught(sc.low[:qlen]) || s.isBlocked(sc.low[:qlen])
		scratches.Put(sc)
		if back {
			o.metrics.count(view, resultLoop)
			return dns.RcodeRefused, nil
		}
		return o.forward(ctx, w, r, s, view)
	}
	o.metrics.count(view, results[res.outcome])
	if res.outcome == outName {
		// Written as a message, so that whoever records response codes sees
		// this one.
		m := new(dns.Msg)
		err = m.Unpack(sc.message(r, qlen, res, s.serial, s.config.TTL, s.upstream != nil))
		scratches.Put(sc)
		if err != nil {
			return dns.RcodeServerFailure, plugin.Error(pluginName, err)
		}
		return dns.RcodeNameError, w.WriteMsg(m)
	}
	_, err = w.Write(sc.message(r, qlen, res, s.serial, s.config.TTL, s.upstream != nil))
	scratches.Put(sc)
	return dns.RcodeSuccess, err
}

// forward hands a question that is not ours to the upstreams, or to the next
// plugin where the Corefile says so.
func (o *Oooi) forward(ctx context.Context, w dns.ResponseWriter, r *dns.Msg, s *serving, view side) (int, error) {
	if s.upstream == nil {
		o.metrics.count(view, resultNoUpstream)
		if !o.options.fallthru {
			return dns.RcodeRefused, nil
		}
	} else {
		o.metrics.count(view, resultForwarded)
	}
	if o.options.fallthru && o.Next != nil {
		return plugin.NextOrFailure(pluginName, o.Next, ctx, w, r)
	}
	return s.upstream.ServeDNS(ctx, w, r)
}
