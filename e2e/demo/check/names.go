package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/e2e/demo/world"
	"github.com/densityops/oooi/e2e/lab"
)

// reply is what dig saw.
type reply struct {
	status string
	// answers are the data of the answer section, without the dot of a name.
	answers []string
	// soa says whether the authority section holds the zone's SOA.
	soa bool
}

// dig asks the host's own resolver, as resolv.conf names it.
func dig(ctx context.Context, h *lab.Host, args ...string) (reply, error) {
	said, err := h.Run(ctx, append([]string{
		"dig", "+time=5", "+tries=3", "+noall", "+comments", "+answer", "+authority",
	}, args...)...)
	if err != nil {
		return reply{}, err
	}
	var out reply
	section := ""
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if _, rest, found := strings.Cut(line, "status: "); found {
			out.status, _, _ = strings.Cut(rest, ",")
			continue
		}
		if strings.HasPrefix(line, ";;") {
			section = line
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 5 || strings.HasPrefix(line, ";") {
			continue
		}
		switch {
		case strings.Contains(section, "ANSWER SECTION"):
			out.answers = append(out.answers, strings.TrimSuffix(fields[4], "."))
		case strings.Contains(section, "AUTHORITY SECTION") && fields[3] == "SOA":
			out.soa = true
		}
	}
	return out, nil
}

// answers wants each name to have exactly one A record.
func answers(ctx context.Context, h *lab.Host, want netip.Addr, names ...string) error {
	var errs []error
	for _, name := range names {
		got, err := dig(ctx, h, name, "A")
		if err == nil && (got.status != "NOERROR" || !slices.Equal(got.answers, []string{want.String()})) {
			err = fmt.Errorf("%s: %s %v, not %s", name, got.status, got.answers, want)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ownNames are the names that every attachment publishes.
func ownNames(c *world.Cluster) []string {
	var out []string
	for _, label := range []string{"api", "api-int", "oauth", "ignition", "konnectivity"} {
		out = append(out, label+"."+c.Domain)
	}
	return out
}

// appNames are two applications, one of them deeper than a wildcard certificate reaches.
func appNames(c *world.Cluster) []string {
	return []string{"console.apps." + c.Domain, "a.b.apps." + c.Domain}
}

func nameChecks() []Check {
	return []Check{
		{
			Name: "dig: control plane names lead to the proxy",
			VM: func(ctx context.Context, w *world.World, vm *world.VM) error {
				return answers(ctx, vm.Host, w.Network.Proxy, ownNames(vm.Cluster)...)
			},
			Stranger: forEveryCluster(func(ctx context.Context, w *world.World, c *world.Cluster) error {
				return answers(ctx, w.Stranger, w.Network.Proxy, ownNames(c)...)
			}),
			Hub: forEveryCluster(func(ctx context.Context, w *world.World, c *world.Cluster) error {
				return answers(ctx, w.Hub, w.Network.ProxyService, ownNames(c)...)
			}),
		},
		{
			Name: "dig: *.apps leads to the router, in the pod network to the proxy",
			VM: func(ctx context.Context, _ *world.World, vm *world.VM) error {
				return answers(ctx, vm.Host, vm.Cluster.Apps, appNames(vm.Cluster)...)
			},
			Hub: forEveryCluster(func(ctx context.Context, w *world.World, c *world.Cluster) error {
				return answers(ctx, w.Hub, w.Network.ProxyService, appNames(c)...)
			}),
		},
		{
			Name: "dig: kubernetes.default.svc and its short forms lead to the proxy",
			VM: func(ctx context.Context, w *world.World, vm *world.VM) error {
				return answers(ctx, vm.Host, w.Network.Proxy, world.Aliases()...)
			},
			Hub: func(ctx context.Context, w *world.World) error {
				return answers(ctx, w.Hub, w.Network.ProxyService, world.Aliases()...)
			},
		},
		{
			Name: "dig: the VM's own name and its address' name",
			VM:   ownName,
		},
		{
			Name: "dig: AAAA and HTTPS of an owned name are empty, with an SOA",
			VM: func(ctx context.Context, _ *world.World, vm *world.VM) error {
				return empty(ctx, vm.Host, "api."+vm.Cluster.Domain, "apps."+vm.Cluster.Domain, "console.apps."+vm.Cluster.Domain)
			},
		},
		{
			Name:     "dig: the world outside comes from the upstream resolver",
			VM:       func(ctx context.Context, _ *world.World, vm *world.VM) error { return outside(ctx, vm.Host) },
			Stranger: func(ctx context.Context, w *world.World) error { return outside(ctx, w.Stranger) },
			Hub:      func(ctx context.Context, w *world.World) error { return outside(ctx, w.Hub) },
		},
		{
			Name:  "no owned name was ever asked upstream",
			World: nothingLeaked,
		},
	}
}

func forEveryCluster(do func(context.Context, *world.World, *world.Cluster) error) func(context.Context, *world.World) error {
	return func(ctx context.Context, w *world.World) error {
		var errs []error
		for _, c := range w.Clusters {
			errs = append(errs, do(ctx, w, c))
		}
		return errors.Join(errs...)
	}
}

func ownName(ctx context.Context, _ *world.World, vm *world.VM) error {
	address := vm.Lease.Address.Addr()
	name := vm.Name + "." + vm.Cluster.Domain
	if err := answers(ctx, vm.Host, address, name); err != nil {
		return err
	}
	got, err := dig(ctx, vm.Host, "-x", address.String())
	if err == nil && !slices.Equal(got.answers, []string{name}) {
		err = fmt.Errorf("%s: %s %v, not %s", address, got.status, got.answers, name)
	}
	return err
}

func empty(ctx context.Context, h *lab.Host, names ...string) error {
	var errs []error
	for _, name := range names {
		for _, kind := range []string{"AAAA", "TYPE65"} {
			got, err := dig(ctx, h, name, kind)
			if err == nil && (got.status != "NOERROR" || len(got.answers) > 0 || !got.soa) {
				err = fmt.Errorf("%s %s: %s %v, SOA %t", name, kind, got.status, got.answers, got.soa)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func outside(ctx context.Context, h *lab.Host) error {
	if err := answers(ctx, h, netip.MustParseAddr(world.UpstreamAddress), world.UpstreamName); err != nil {
		return err
	}
	got, err := dig(ctx, h, "no-such-name.example.net", "A")
	if err == nil && got.status != "NXDOMAIN" {
		err = fmt.Errorf("a name that does not exist: %s, not NXDOMAIN", got.status)
	}
	return err
}

// nothingLeaked compares what the upstream resolver was asked with all that oooi
// owns: the published names, everything below apps, the aliases, the workers'
// names and the VLAN's addresses. Other names below a cluster's domain are the
// upstream's; the DNS server itself asks for one, to find upstreams that lead
// back to it.
func nothingLeaked(_ context.Context, w *world.World) error {
	queries := w.UpstreamQueries()
	if !slices.Contains(queries, world.UpstreamName) {
		return fmt.Errorf("the upstream resolver saw no query at all: %v", queries)
	}
	owned := world.Aliases()
	for _, c := range w.Clusters {
		owned = append(append(owned, ownNames(c)...), c.Domain, "apps."+c.Domain)
	}
	for _, vm := range w.VMs {
		owned = append(owned, vm.Name+"."+vm.Cluster.Domain)
	}
	for _, name := range queries {
		below := strings.HasSuffix(name, ".2.0.192.in-addr.arpa")
		for _, c := range w.Clusters {
			below = below || strings.HasSuffix(name, ".apps."+c.Domain)
		}
		if below || slices.Contains(owned, name) {
			return fmt.Errorf("%s was asked upstream", name)
		}
	}
	return nil
}
