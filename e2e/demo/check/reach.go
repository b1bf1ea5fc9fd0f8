package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/demo/world"
	"github.com/densityops/oooi/e2e/lab"
)

// Services of a hosted control plane and the label under which they are published.
var published = []struct{ label, service, port string }{
	{"api", "kube-apiserver", "6443"},
	{"api-int", "kube-apiserver", "6443"},
	{"oauth", "oauth-openshift", "443"},
	{"ignition", "ignition-server-proxy", "443"},
	{"konnectivity", "konnectivity-server", "443"},
}

// alias is the name by which a pod of a worker calls its API server.
const alias = "kubernetes.default.svc"

// reaches wants a probe to end at that service of that cluster, with a
// certificate of that cluster's own authority.
func reaches(ctx context.Context, w *world.World, h *lab.Host, c *world.Cluster, service string, p actor.Probe) error {
	p.Authorities = w.Authority(c.Name)
	if p.Host == "" {
		p.Host = p.Expect
	}
	out, err := world.Ask[actor.Outcome](ctx, w, h, "probe", p)
	if err != nil {
		return err
	}
	if out.Stage != "answer" || out.Status != http.StatusOK || out.Answer.Cluster != c.Name || out.Answer.Service != service {
		return fmt.Errorf("%s (SNI %q): stage %s, status %d, answer %+v, %s; wanted %s of %s",
			p.Address, p.ServerName, out.Stage, out.Status, out.Answer, out.Error, service, c.Name)
	}
	if out.Answer.ServerName != p.ServerName || out.Answer.Host != p.Host {
		return fmt.Errorf("%s: SNI %q and host %q arrived, not %q and %q",
			p.Address, out.Answer.ServerName, out.Answer.Host, p.ServerName, p.Host)
	}
	return nil
}

// named is a client that looks a name up and connects to it.
func named(name, port string) actor.Probe {
	return actor.Probe{Address: net.JoinHostPort(name, port), ServerName: name, Expect: name}
}

// publishedOf wants all published names of a cluster to lead to their services.
func publishedOf(ctx context.Context, w *world.World, h *lab.Host, c *world.Cluster, labels ...string) error {
	var errs []error
	for _, p := range published {
		for _, label := range labels {
			if p.label == label {
				errs = append(errs, reaches(ctx, w, h, c, p.service, named(label+"."+c.Domain, p.port)))
			}
		}
	}
	return errors.Join(errs...)
}

func reachChecks() []Check {
	var out []Check
	for _, p := range [][]string{{"api", "api-int"}, {"oauth"}, {"ignition"}, {"konnectivity"}} {
		out = append(out, publishedCheck(p...))
	}
	return append(out,
		Check{
			Name: "TLS without SNI to 6443 is the VM's own API server",
			VM: func(ctx context.Context, w *world.World, vm *world.VM) error {
				return reaches(ctx, w, vm.Host, vm.Cluster, "kube-apiserver", atProxy(w, "6443", "", alias))
			},
		},
		Check{
			Name: "kubernetes.default.svc on 443 and 6443 is the VM's own API server",
			VM: func(ctx context.Context, w *world.World, vm *world.VM) error {
				return errors.Join(
					reaches(ctx, w, vm.Host, vm.Cluster, "kube-apiserver", named(alias, "443")),
					reaches(ctx, w, vm.Host, vm.Cluster, "kube-apiserver", named(alias, "6443")),
				)
			},
		},
		Check{
			Name: "TLS without SNI to 443 is the VM's own konnectivity",
			VM: func(ctx context.Context, w *world.World, vm *world.VM) error {
				return reaches(ctx, w, vm.Host, vm.Cluster, "konnectivity-server", atProxy(w, "443", "", "konnectivity."+vm.Cluster.Domain))
			},
		},
		Check{
			Name: "*.apps on 443: the cluster's router, direct and through the proxy",
			VM: func(ctx context.Context, w *world.World, vm *world.VM) error {
				return errors.Join(apps(ctx, w, vm.Host, vm.Cluster, vm.Cluster.Apps), apps(ctx, w, vm.Host, vm.Cluster, w.Network.Proxy))
			},
			Stranger: forEveryCluster(func(ctx context.Context, w *world.World, c *world.Cluster) error {
				return apps(ctx, w, w.Stranger, c, w.Network.Proxy)
			}),
			Hub: forEveryCluster(func(ctx context.Context, w *world.World, c *world.Cluster) error {
				return apps(ctx, w, w.Hub, c, w.Network.ProxyService)
			}),
		},
		Check{
			Name: "*.apps on 80: the cluster's router, direct and through the proxy",
			VM: func(ctx context.Context, w *world.World, vm *world.VM) error {
				return errors.Join(plainApps(ctx, w, vm.Host, vm.Cluster, vm.Cluster.Apps), plainApps(ctx, w, vm.Host, vm.Cluster, w.Network.Proxy))
			},
			Stranger: forEveryCluster(func(ctx context.Context, w *world.World, c *world.Cluster) error {
				return plainApps(ctx, w, w.Stranger, c, w.Network.Proxy)
			}),
			Hub: forEveryCluster(func(ctx context.Context, w *world.World, c *world.Cluster) error {
				return plainApps(ctx, w, w.Hub, c, w.Network.ProxyService)
			}),
		},
	)
}

func publishedCheck(labels ...string) Check {
	all := forEveryCluster
	words := strings.Join(labels, " and ")
	return Check{
		Name: "TLS to " + words + ": the right service, the cluster's own certificate",
		// A full name leads to the cluster that it names, whoever asks.
		VM: func(ctx context.Context, w *world.World, vm *world.VM) error {
			return all(func(ctx context.Context, w *world.World, c *world.Cluster) error {
				return publishedOf(ctx, w, vm.Host, c, labels...)
			})(ctx, w)
		},
		Stranger: all(func(ctx context.Context, w *world.World, c *world.Cluster) error {
			return publishedOf(ctx, w, w.Stranger, c, labels...)
		}),
		Hub: all(func(ctx context.Context, w *world.World, c *world.Cluster) error {
			return publishedOf(ctx, w, w.Hub, c, labels...)
		}),
	}
}

// atProxy is a client that connects to the proxy's VLAN address with an SNI of
// its choice, or none.
func atProxy(w *world.World, port, sni, expect string) actor.Probe {
	return actor.Probe{Address: net.JoinHostPort(w.Network.Proxy.String(), port), ServerName: sni, Expect: expect}
}

func apps(ctx context.Context, w *world.World, h *lab.Host, c *world.Cluster, via netip.Addr) error {
	name := "console.apps." + c.Domain
	return reaches(ctx, w, h, c, "router", actor.Probe{Address: net.JoinHostPort(via.String(), "443"), ServerName: name, Expect: name})
}

func plainApps(ctx context.Context, w *world.World, h *lab.Host, c *world.Cluster, via netip.Addr) error {
	return reaches(ctx, w, h, c, "router", actor.Probe{
		Address: net.JoinHostPort(via.String(), "80"), Plain: true, Host: "console.apps." + c.Domain,
	})
}
