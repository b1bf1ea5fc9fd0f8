package oooi

import (
	"context"
	"errors"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

const tailName = "oooi_upstream"

func init() { plugin.Register(tailName, setupTail) }

// Tail is the handler of oooi_upstream: it forwards what oooi let fall through,
// after the plugins in between have seen it.
type Tail struct {
	head *Oooi // set before the first query
}

func setupTail(c *caddy.Controller) error {
	c.Next()
	if c.NextArg() || c.NextBlock() || c.Next() {
		return plugin.Error(tailName, c.ArgErr())
	}
	config := dnsserver.GetConfig(c)
	t := new(Tail)
	config.AddPlugin(func(plugin.Handler) plugin.Handler { return t })
	c.OnStartup(func() error {
		head, ok := config.Handler(pluginName).(*Oooi)
		if !ok {
			return plugin.Error(tailName, errors.New("needs the directive oooi in the same server block"))
		}
		t.head = head
		return nil
	})
	return nil
}

// Name implements plugin.Handler.
func (t *Tail) Name() string { return tailName }

// ServeDNS implements plugin.Handler.
func (t *Tail) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	s := t.head.serving.Load()
	if s == nil || s.upstream == nil {
		return dns.RcodeRefused, nil
	}
	return s.upstream.ServeDNS(ctx, w, r)
}
