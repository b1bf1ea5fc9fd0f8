package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/demo/world"
	"github.com/densityops/oooi/e2e/lab"
)

// ends wants a probe to end at one of the stages, without an answer.
func ends(ctx context.Context, w *world.World, h *lab.Host, p actor.Probe, stages ...string) error {
	out, err := world.Ask[actor.Outcome](ctx, w, h, "probe", p)
	if err == nil && !slices.Contains(stages, out.Stage) {
		err = fmt.Errorf("%s (SNI %q): stage %s, status %d, answer %+v %q; wanted %v",
			p.Address, p.ServerName, out.Stage, out.Status, out.Answer, out.Received, stages)
	}
	return err
}

func closedChecks() []Check {
	return []Check{
		{
			Name: "closed: another cluster by alias or without SNI",
			VM:   otherTenant,
		},
		{
			Name: "closed: API server and konnectivity by source, for an unknown source",
			Stranger: func(ctx context.Context, w *world.World) error {
				return bySource(ctx, w, w.Stranger, w.Network.Proxy, "443", "6443")
			},
			Hub: func(ctx context.Context, w *world.World) error {
				return bySource(ctx, w, w.Hub, w.Network.ProxyService, "443", "6443")
			},
		},
		onVLAN("closed: a TLS name that nobody owns, on 443", func(ctx context.Context, w *world.World, h *lab.Host) error {
			var errs []error
			for _, name := range []string{"www.example.org", "api." + w.Clusters[0].Domain, "apps." + w.Clusters[0].Domain, "x." + w.Clusters[0].Domain} {
				errs = append(errs, ends(ctx, w, h, atProxy(w, "443", name, name), "closed"))
			}
			return errors.Join(errs...)
		}),
		onVLAN("closed: what is no TLS, on 443", func(ctx context.Context, w *world.World, h *lab.Host) error {
			return ends(ctx, w, h, actor.Probe{
				Address: net.JoinHostPort(w.Network.Proxy.String(), "443"), Raw: []byte("SSH-2.0-OpenSSH_9.2\r\n"),
			}, "closed")
		}),
		onVLAN("port 80 knows no other host: 404", func(ctx context.Context, w *world.World, h *lab.Host) error {
			out, err := world.Ask[actor.Outcome](ctx, w, h, "probe", actor.Probe{
				Address: net.JoinHostPort(w.Network.Proxy.String(), "80"), Plain: true, Host: "www.example.org",
			})
			if err == nil && out.Status != http.StatusNotFound {
				err = fmt.Errorf("stage %s, status %d", out.Stage, out.Status)
			}
			return err
		}),
	}
}

// otherTenant asks by alias and without SNI, trusting the other clusters alone:
// whoever answers, it is none of them.
func otherTenant(ctx context.Context, w *world.World, vm *world.VM) error {
	var errs []error
	for _, c := range w.Clusters {
		if c == vm.Cluster {
			continue
		}
		for _, p := range []actor.Probe{
			atProxy(w, "6443", "", alias),
			atProxy(w, "6443", alias, alias),
			atProxy(w, "443", alias, alias),
			atProxy(w, "443", "", "konnectivity."+c.Domain),
		} {
			p.Authorities = w.Authority(c.Name)
			errs = append(errs, ends(ctx, w, vm.Host, p, "certificate"))
		}
	}
	return errors.Join(errs...)
}

// bySource wants all that is chosen by the source address to be closed.
func bySource(ctx context.Context, w *world.World, h *lab.Host, proxy netip.Addr, ports ...string) error {
	var errs []error
	for _, port := range ports {
		for _, sni := range append([]string{""}, world.Aliases()...) {
			errs = append(errs, ends(ctx, w, h, actor.Probe{
				Address: net.JoinHostPort(proxy.String(), port), ServerName: sni, Expect: alias,
			}, "closed"))
		}
	}
	return errors.Join(errs...)
}
