package oooi

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
)

func init() { plugin.Register(pluginName, setup) }

// options is the directive, parsed.
type options struct {
	snapshot   string
	hub        string
	hubCA      string
	token      string
	namespace  string
	name       string
	kubeconfig string
	stateDir   string
	resolvConf string
	vlan       netip.Addr
	pod        netip.Addr
	fence      bool // an init container fences the pod
	bind       bool
	announce   bool
	fallthru   bool
	port       uint16
}

func setup(c *caddy.Controller) error {
	opts, err := parse(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	config := dnsserver.GetConfig(c)
	if err := checkListeners(config.ListenHosts); err != nil {
		return plugin.Error(pluginName, err)
	}
	if p, err := strconv.ParseUint(config.Port, 10, 16); err == nil {
		opts.port = uint16(p)
	}
	o := &Oooi{options: opts, metrics: newMetrics()}
	e := newEngine(o)
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		o.Next = next
		return o
	})
	c.OnStartup(e.start)
	c.OnShutdown(e.stop)
	return nil
}

// checkListeners refuses a socket that is bound to no address: the view of a
// query could not be told by the socket then.
func checkListeners(hosts []string) error {
	for _, h := range hosts {
		a, err := netip.ParseAddr(h)
		if err != nil || a.IsUnspecified() {
			return fmt.Errorf("needs a bind directive that names addresses: the view of a query depends on the socket")
		}
	}
	return nil
}

func parse(c *caddy.Controller) (options, error) {
	opts := options{resolvConf: "/etc/resolv.conf", fence: true}
	seen := false
	for c.Next() {
		if seen {
			return opts, plugin.ErrOnce
		}
		seen = true
		if len(c.RemainingArgs()) > 0 {
			return opts, c.ArgErr()
		}
		for c.NextBlock() {
			if err := parseProperty(c, &opts); err != nil {
				return opts, err
			}
		}
	}
	if opts.hub != "" {
		return opts, needs("hub", [][2]string{{"child", opts.name}, {"hub_ca", opts.hubCA}, {"token", opts.token}})
	}
	return opts, nil
}

// parseProperty reads one line of the block. An argument that is empty, as an
// environment variable that is not set leaves it, is no argument.
func parseProperty(c *caddy.Controller, o *options) error {
	property := c.Val()
	var args []string
	for _, a := range c.RemainingArgs() {
		if a != "" {
			args = append(args, a)
		}
	}
	if set, ok := flagProperties[property]; ok {
		if len(args) != 0 {
			return c.ArgErr()
		}
		set(o)
		return nil
	}
	set, ok := valueProperties[property]
	if !ok {
		return c.Errf("unknown property '%s'", property)
	}
	if len(args) == 0 {
		return nil
	}
	if len(args) > 1 {
		return c.ArgErr()
	}
	if err := set(o, args[0]); err != nil {
		return c.Errf("%s: %v", property, err)
	}
	return nil
}

var flagProperties = map[string]func(*options){
	"bind_devices": func(o *options) { o.bind = true },
	"announce":     func(o *options) { o.announce = true },
	"fallthrough":  func(o *options) { o.fallthru = true },
}

var valueProperties = map[string]func(*options, string) error{
	"snapshot":   text(func(o *options) *string { return &o.snapshot }),
	"hub":        checked(dialAddress, func(o *options) *string { return &o.hub }),
	"hub_ca":     text(func(o *options) *string { return &o.hubCA }),
	"token":      text(func(o *options) *string { return &o.token }),
	"kubeconfig": text(func(o *options) *string { return &o.kubeconfig }),
	"state_dir":  text(func(o *options) *string { return &o.stateDir }),
	"resolv":     text(func(o *options) *string { return &o.resolvConf }),
	"vlan":       addr(func(o *options) *netip.Addr { return &o.vlan }),
	"pod":        addr(func(o *options) *netip.Addr { return &o.pod }),
	"child": func(o *options, v string) error {
		o.namespace, o.name, _ = strings.Cut(v, "/")
		return refused(v, resource(v))
	},
	"fence": func(o *options, v string) error {
		o.fence = v == "on"
		return refused(v, onOrOff(v))
	},
}

// refused is what is wrong with a value, in words that name it.
func refused(v string, err error) error {
	if err != nil {
		return fmt.Errorf("invalid value %q: %w", v, err)
	}
	return nil
}

func checked(check func(string) error, field func(*options) *string) func(*options, string) error {
	return func(o *options, v string) error {
		*field(o) = v
		return refused(v, check(v))
	}
}

func text(field func(*options) *string) func(*options, string) error {
	return func(o *options, v string) error {
		*field(o) = v
		return nil
	}
}

func addr(field func(*options) *netip.Addr) func(*options, string) error {
	return func(o *options, v string) error {
		a, err := netip.ParseAddr(v)
		if err != nil {
			return refused(v, errIP)
		}
		*field(o) = a.Unmap()
		return nil
	}
}

// Caddy tells when the sockets of an instance are open, but only by a hook that
// the whole process shares and that can be set once.
var (
	startedOnce sync.Once
	startedMu   sync.Mutex
	starting    []*engine // guarded by startedMu: started, sockets not seen to yet
)

// whenListening calls e.listening once the servers listen.
func whenListening(e *engine) {
	startedOnce.Do(func() {
		caddy.RegisterEventHook(pluginName, func(event caddy.EventName, _ any) error {
			if event != caddy.InstanceStartupEvent {
				return nil
			}
			startedMu.Lock()
			engines := starting
			starting = nil
			startedMu.Unlock()
			for _, e := range engines {
				e.listening()
			}
			return nil
		})
	})
	startedMu.Lock()
	defer startedMu.Unlock()
	starting = append(starting, e)
}
