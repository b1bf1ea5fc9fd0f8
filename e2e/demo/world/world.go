package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/lab"
)

// Options say what the world is made of.
type Options struct {
	// Bin holds the product's binaries.
	Bin string
	// Envoy is the Envoy binary.
	Envoy string
	// Objects are the directories that the plan is made from.
	Objects []string
	// Dir is where plans, logs and the like are kept.
	Dir string
	// Self is the command that starts an actor.
	Self []string
	// Step is told of every step before it begins; what it returns is called at its end.
	Step func(words string) func(error)
}

// World is the demo's world, once built.
type World struct {
	*Objects
	Options

	Lab *lab.Lab
	// Gateway is the VLAN's router, with an address but without any service.
	Gateway *lab.Host
	// Stranger is a machine on the VLAN that is nobody's worker.
	Stranger *lab.Host
	// Hub is a pod of the management cluster that uses the DNS Service.
	Hub *lab.Host
	// Victim is a pod that nobody on the VLAN may reach.
	Victim *lab.Host
	Pods   Pods
	VMs    []*VM

	sw          *lab.Host
	node        *lab.Host
	authorities map[string]*authority
	upstream    *lab.Process
	processes   []*lab.Process
}

// Networks and addresses that no object names.
var (
	podCIDR         = netip.MustParsePrefix("10.128.0.0/16")
	serviceCIDR     = netip.MustParsePrefix("172.30.0.0/16")
	nodeAddress     = netip.MustParseAddr("10.128.0.1")
	hubAddress      = netip.MustParseAddr("10.128.0.20")
	outsideNode     = netip.MustParsePrefix("198.51.100.1/24")
	outsideResolver = 24 // the prefix length of the upstream's network
	// StrangerAddress lies outside the pool and is no worker's.
	StrangerAddress = netip.MustParseAddr("192.0.2.50")
)

// VictimPort is where the victim listens.
const VictimPort = 8080

// UpstreamName is a name of the world outside, and UpstreamAddress its address.
const (
	UpstreamName    = "www.example.org"
	UpstreamAddress = "203.0.113.80"
)

// Build makes the whole world. What fails is taken down by closing w.Lab, which
// is there as soon as the lab is.
func Build(ctx context.Context, o Options) (*World, error) {
	objects, err := Read(o.Objects...)
	if err != nil {
		return nil, err
	}
	l, err := lab.New()
	if err != nil {
		return nil, err
	}
	w := &World{Objects: objects, Options: o, Lab: l, authorities: map[string]*authority{}}
	steps := []struct {
		words string
		do    func(context.Context) error
	}{
		{"operator render plans " + w.clusterNames(), func(ctx context.Context) error { return w.render(ctx, "plan-1", nil) }},
		{"VLAN " + w.Network.CIDR.String() + ", pod network, upstream resolver", w.networks},
		{"hosted control planes and ingress routers, each with its own CA", w.controlPlanes},
		{"three pods, their fences, and what the fences close", w.pods},
		{"dhcpd, CoreDNS, xds-manager and Envoy serve the plan", w.daemons},
		{"worker VMs boot and ask for a lease", w.boot},
		{"the plan follows the leases", w.replan},
	}
	for _, s := range steps {
		done := o.Step(s.words)
		err := s.do(ctx)
		done(err)
		if err != nil {
			return w, fmt.Errorf("%s: %w", s.words, err)
		}
	}
	return w, nil
}

func (w *World) clusterNames() string {
	names := make([]string, 0, len(w.Clusters))
	for _, c := range w.Clusters {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// networks makes the switch with its three bridges, the node that routes between
// pods and the world outside, and the hosts that have no part in a cluster.
func (w *World) networks(ctx context.Context) (err error) {
	if w.sw, err = w.Lab.Host("switch"); err != nil {
		return err
	}
	for _, bridge := range []string{"vlan", "pods", "outside"} {
		if err := w.sw.Bridge(ctx, bridge); err != nil {
			return err
		}
	}
	if w.node, err = w.host(ctx, "node",
		leg{"pods", "eth0", "", []netip.Prefix{on(podCIDR, nodeAddress)}},
		leg{"outside", "eth1", "", []netip.Prefix{outsideNode}},
	); err != nil {
		return err
	}
	if err := w.node.Sysctl(ctx, "net.ipv4.ip_forward", "1"); err != nil {
		return err
	}
	upstream, err := w.host(ctx, "upstream",
		leg{"outside", "eth0", "", []netip.Prefix{netip.PrefixFrom(w.Network.Upstream, outsideResolver)}})
	if err != nil {
		return err
	}
	if err := upstream.Route(ctx, "default via "+outsideNode.Addr().String()); err != nil {
		return err
	}
	w.upstream, err = w.act(upstream, "resolve", actor.Resolver{
		Address: netip.AddrPortFrom(w.Network.Upstream, 53).String(),
		Names:   map[string]string{UpstreamName: UpstreamAddress},
	})
	if err != nil {
		return err
	}
	if w.Gateway, err = w.host(ctx, "gateway",
		leg{"vlan", "eth0", "", []netip.Prefix{on(w.Network.CIDR, w.Network.Gateway)}}); err != nil {
		return err
	}
	if w.Stranger, err = w.host(ctx, "stranger",
		leg{"vlan", "eth0", "", []netip.Prefix{on(w.Network.CIDR, StrangerAddress)}}); err != nil {
		return err
	}
	if err := w.Stranger.Resolver(ctx, w.Network.DNS.String()); err != nil {
		return err
	}
	return w.hub(ctx)
}

// leg is one device of a host.
type leg struct {
	bridge    string
	device    string
	mac       string
	addresses []netip.Prefix
}

func (w *World) host(ctx context.Context, name string, legs ...leg) (*lab.Host, error) {
	h, err := w.Lab.Host(name)
	if err != nil {
		return nil, err
	}
	for _, l := range legs {
		if err := h.Plug(ctx, w.sw, l.bridge, lab.Link{Device: l.device, MAC: l.mac, Addresses: l.addresses}); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// podHost is a host with a leg in the pod network and the routes that a pod has.
func (w *World) podHost(ctx context.Context, name string, ip netip.Addr, more ...leg) (*lab.Host, error) {
	h, err := w.host(ctx, name, append([]leg{{"pods", "eth0", "", []netip.Prefix{on(podCIDR, ip)}}}, more...)...)
	if err != nil {
		return nil, err
	}
	for _, route := range []string{
		"default via " + nodeAddress.String(),
		// ClusterIPs are answered by the hosts that stand for the Services.
		serviceCIDR.String() + " dev eth0",
	} {
		if err := h.Route(ctx, route); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// hub makes the pod of the management cluster. What kube-proxy does for the two
// Services of oooi, two rules do in its namespace.
func (w *World) hub(ctx context.Context) (err error) {
	if w.Hub, err = w.podHost(ctx, "hub", hubAddress); err != nil {
		return err
	}
	if err := w.Hub.Resolver(ctx, w.Network.DNSService.String()); err != nil {
		return err
	}
	rules := fmt.Sprintf(`table ip services {
	chain output {
		type nat hook output priority -100;
		ip daddr %s dnat to %s
		ip daddr %s dnat to %s
	}
}
`, w.Network.ProxyService, proxyPodIP, w.Network.DNSService, dnsPodIP)
	_, err = w.Hub.Exec(ctx, lab.Spec{Args: []string{"nft", "-f", "-"}, Stdin: strings.NewReader(rules)})
	return err
}

// controlPlanes gives each cluster a host that answers on the ClusterIPs of its
// Services, and one on the VLAN that stands for its ingress router behind the VIP.
func (w *World) controlPlanes(ctx context.Context) error {
	for _, c := range w.Clusters {
		ca, err := newAuthority(c.Name)
		if err != nil {
			return err
		}
		w.authorities[c.Name] = ca
		if err := w.controlPlane(ctx, c, ca); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if err := w.router(ctx, c, ca); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// CertificateNames are the names that a control plane's certificate carries,
// by Service.
func CertificateNames(c *Cluster, service string) []string {
	switch service {
	case "kube-apiserver":
		return append([]string{"api." + c.Domain, "api-int." + c.Domain}, Aliases()...)
	case "oauth-openshift":
		return []string{"oauth." + c.Domain}
	case "konnectivity-server":
		return []string{"konnectivity." + c.Domain}
	case "ignition-server-proxy":
		return []string{"ignition." + c.Domain}
	default:
		return []string{service + "." + c.Namespace + ".svc"}
	}
}

// Aliases are the names by which a worker's pods know their API server.
func Aliases() []string {
	return []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
}

func (w *World) controlPlane(ctx context.Context, c *Cluster, ca *authority) error {
	var part actor.Servers
	var addresses []netip.Prefix
	for name, at := range c.Services {
		cert, key, err := ca.issue(CertificateNames(c, name)...)
		if err != nil {
			return err
		}
		part.Servers = append(part.Servers, actor.Server{
			Address: at.String(), Certificate: cert, Key: key, Cluster: c.Name, Service: name,
		})
		addresses = append(addresses, on(serviceCIDR, at.Addr()))
	}
	h, err := w.host(ctx, c.Namespace, leg{"pods", "eth0", "", addresses})
	if err != nil {
		return err
	}
	if err := h.Route(ctx, podCIDR.String()+" dev eth0"); err != nil {
		return err
	}
	_, err = w.act(h, "serve", part)
	return err
}

func (w *World) router(ctx context.Context, c *Cluster, ca *authority) error {
	if !c.Apps.IsValid() {
		return nil
	}
	cert, key, err := ca.issue("*.apps." + c.Domain)
	if err != nil {
		return err
	}
	h, err := w.host(ctx, "router-"+c.Name, leg{"vlan", "eth0", "", []netip.Prefix{on(w.Network.CIDR, c.Apps)}})
	if err != nil {
		return err
	}
	_, err = w.act(h, "serve", actor.Servers{Servers: []actor.Server{
		{Address: c.Apps.String() + ":443", Certificate: cert, Key: key, Cluster: c.Name, Service: "router"},
		{Address: c.Apps.String() + ":80", Cluster: c.Name, Service: "router"},
	}})
	return err
}

// Authority is the PEM of the cluster's CA.
func (w *World) Authority(cluster string) string { return w.authorities[cluster].PEM }

// UpstreamQueries are the names that the upstream resolver was asked for.
func (w *World) UpstreamQueries() []string { return strings.Fields(w.upstream.Output()) }

// Ended names the background programs that have ended, which none should.
func (w *World) Ended() error {
	for _, p := range w.processes {
		if err := p.Running(); err != nil {
			return err
		}
	}
	return nil
}

// act starts an actor in the background.
func (w *World) act(h *lab.Host, name string, part any) (*lab.Process, error) {
	in, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	return w.start(h, name, lab.Spec{Args: append(append([]string{}, w.Self...), name), Stdin: bytes.NewReader(in)})
}

// Ask runs an actor to its end and decodes what it found.
func Ask[T any](ctx context.Context, w *World, h *lab.Host, name string, part any) (T, error) {
	var out T
	in, err := json.Marshal(part)
	if err != nil {
		return out, err
	}
	said, err := h.Exec(ctx, lab.Spec{Args: append(append([]string{}, w.Self...), name), Stdin: bytes.NewReader(in)})
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal([]byte(said), &out)
}

// start starts a program and keeps its words in a file.
func (w *World) start(h *lab.Host, name string, spec lab.Spec) (*lab.Process, error) {
	dir := filepath.Join(w.Dir, "logs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, h.Name+"-"+name+".log"))
	if err != nil {
		return nil, err
	}
	spec.Log = log
	p, err := h.Start(spec)
	if err != nil {
		return nil, err
	}
	w.processes = append(w.processes, p)
	return p, nil
}

// each runs do for every item at once and returns the first error.
func each[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var wait sync.WaitGroup
	for i, item := range items {
		wait.Go(func() { errs[i] = do(item) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// on is an address with the prefix length of its network.
func on(network netip.Prefix, address netip.Addr) netip.Prefix {
	return netip.PrefixFrom(address, network.Bits())
}

// soon is how long anything in the demo may take to come up on a busy machine.
const soon = 3 * time.Minute

// Inside are the networks of the management cluster.
func Inside() []netip.Prefix { return []netip.Prefix{podCIDR, serviceCIDR} }
