package oooi

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/cache" // the directive that newUpstream sets up
	"github.com/coredns/coredns/plugin/forward"
	"github.com/miekg/dns"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// Reasons of problems that the upstreams can have.
const (
	// ReasonUpstreamIsSelf: an upstream is this server and is not used.
	ReasonUpstreamIsSelf = "UpstreamIsSelf"
	// ReasonNoUpstreams: upstreams are named, but none of them can be used.
	ReasonNoUpstreams = "NoUpstreams"
	// ReasonTooManyUpstreams: only the first ones are used.
	ReasonTooManyUpstreams = "TooManyUpstreams"
)

const (
	// maxUpstreams is what CoreDNS's forward takes.
	maxUpstreams = 15

	// forwardBlock: strictly in the order that the user gave; an upstream that
	// fails is left for the next one after a second, so one dead upstream costs
	// less than two, and where there is only one it gets twice that for a slow
	// recursion; over UDP whatever the client used, since a TCP connect to
	// a dead upstream may hang far longer, and by TCP when that is truncated.
	forwardBlock = ` {
		policy sequential
		failover SERVFAIL REFUSED
		prefer_udp
		max_fails 1
		health_check 500ms
		read_timeout %s
	}`

	// cacheBlock bounds how long a forwarded answer is kept; a failure only as
	// long as it takes to keep a crowd from asking again at once. What is not to
	// be kept at all (TTL 0) is not.
	cacheBlock = `cache {
		success 8192 30 0
		denial 2048 30 0
		servfail 1s
	}`

	// drainTime is how long queries that are under way may still use an
	// upstream that was replaced: forward gives up after 5 s.
	drainTime = 10 * time.Second
)

// upstream is CoreDNS's cache in front of CoreDNS's forward, set up as if the
// Corefile named them.
type upstream struct {
	plugin.Handler
	addrs   []netip.AddrPort
	forward *forward.Forward
}

// newUpstream starts health checks; the caller must stop what it no longer uses.
func newUpstream(addrs []netip.AddrPort, s *shares) (*upstream, error) {
	to := make([]string, len(addrs))
	for i, a := range addrs {
		to[i] = a.String()
	}
	patience := time.Second
	if len(addrs) == 1 {
		patience = 2 * time.Second
	}
	h, err := embed("forward", "forward . "+strings.Join(to, " ")+fmt.Sprintf(forwardBlock, patience), nil)
	if err != nil {
		return nil, err
	}
	f, ok := h.(*forward.Forward)
	if !ok {
		return nil, fmt.Errorf("directive forward made a %T", h)
	}
	c, err := embed("cache", cacheBlock, &gate{Handler: f, shares: s})
	if err != nil {
		return nil, err
	}
	if err := f.OnStartup(); err != nil {
		return nil, fmt.Errorf("starting forward: %w", err)
	}
	return &upstream{Handler: c, addrs: slices.Clone(addrs), forward: f}, nil
}

// embed runs a directive's own set-up, so that what its plugin supports in a
// Corefile it supports here, and returns the handler that came of it.
func embed(directive, text string, next plugin.Handler) (plugin.Handler, error) {
	action, err := caddy.DirectiveAction("dns", directive)
	if err != nil {
		return nil, fmt.Errorf("directive %s: %w", directive, err)
	}
	c := caddy.NewTestController("dns", text)
	c.ServerBlockKeys = []string{"."}
	if err := action(c); err != nil {
		return nil, fmt.Errorf("directive %s: %w", directive, err)
	}
	made := dnsserver.GetConfig(c).Plugin
	if len(made) != 1 {
		return nil, fmt.Errorf("directive %s made %d handlers", directive, len(made))
	}
	return made[0](next), nil
}

func (u *upstream) stop() {
	if err := u.forward.OnShutdown(); err != nil {
		log.Warningf("Stopping forward: %v", err)
	}
}

// stopLater stops an upstream once no query can be using it any more.
func (u *upstream) stopLater() { time.AfterFunc(drainTime, u.stop) }

// resolvers turns the upstreams of a snapshot into addresses. node gives the
// node's resolvers; own and port tell what is ourselves.
func resolvers(c *snapshot.Config, node func() ([]string, error), own []netip.Addr, port uint16) ([]netip.AddrPort, []snapshot.Problem) {
	var out []netip.AddrPort
	var problems []snapshot.Problem
	add := func(u snapshot.Upstream, via string) {
		switch {
		case isSelf(u.Addr, own, port):
			problems = append(problems, snapshot.Problem{
				Reason:  ReasonUpstreamIsSelf,
				Message: fmt.Sprintf("upstream %s%s is this DNS server itself or loopback and is not used", u.Addr, via),
			})
		case !slices.Contains(out, u.Addr):
			out = append(out, u.Addr)
		}
	}
	for _, u := range c.Upstreams {
		if !u.Node {
			add(u, "")
			continue
		}
		servers, err := node()
		if err != nil {
			problems = append(problems, snapshot.Problem{Reason: ReasonNoUpstreams, Message: "resolv.conf cannot be read"})
			continue
		}
		for _, s := range servers {
			// What is no IPv4 address is not for us.
			if nu, err := snapshot.ParseUpstream(s); err == nil && !nu.Node {
				add(nu, " of resolv.conf")
			}
		}
	}
	if len(out) == 0 && len(c.Upstreams) > 0 {
		problems = append(problems, snapshot.Problem{
			Reason:  ReasonNoUpstreams,
			Message: "none of the upstreams can be used: names that are not ours are refused",
		})
	}
	if len(out) > maxUpstreams {
		problems = append(problems, snapshot.Problem{
			Reason:  ReasonTooManyUpstreams,
			Message: fmt.Sprintf("only the first %d upstreams are used", maxUpstreams),
		})
		out = out[:maxUpstreams]
	}
	return out, problems
}

// isSelf says whether an upstream would be this very server. Loopback never
// leads out of the pod.
func isSelf(ap netip.AddrPort, own []netip.Addr, port uint16) bool {
	if ap.Port() != 53 && ap.Port() != port {
		return false
	}
	if ap.Addr().IsLoopback() {
		return true
	}
	for _, a := range own {
		if a == ap.Addr() {
			return true
		}
	}
	return false
}

// nodeResolvers reads the nameservers of a resolv.conf.
func nodeResolvers(file string) ([]string, error) {
	c, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return c.Servers, nil
}

// ServeDNS implements plugin.Handler.
func (u *upstream) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return u.Handler.ServeDNS(ctx, w, r)
}
