package world

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/lab"
)

// Pod is one of the three pods of oooi, made from the Deployment that the operator
// rendered.
type Pod struct {
	Host *lab.Host
	// Component is the name that the plan's objects end in.
	Component string
	// IP is its address in the pod network, VLAN its address on the VLAN.
	IP   netip.Addr
	VLAN netip.Addr
	// Device is its device on the VLAN; eth0 is the one in the pod network.
	Device string
	// Victim is the victim's address whose answers are routed through this pod.
	Victim netip.Addr

	spec podSpec
}

// Pods are the three.
type Pods struct {
	DHCP, DNS, Proxy *Pod
}

func (p Pods) all() []*Pod { return []*Pod{p.DHCP, p.DNS, p.Proxy} }

var (
	dhcpPodIP   = netip.MustParseAddr("10.128.0.12")
	dnsPodIP    = netip.MustParseAddr("10.128.0.13")
	proxyPodIP  = netip.MustParseAddr("10.128.0.14")
	victimFirst = netip.MustParseAddr("10.128.0.32")
)

// Paths inside a pod, which has its own /run.
const (
	podBin     = "/run/bin"
	runDir     = "/run/oooi"
	configDir  = "/run/config"
	stateDir   = "/run/state"
	objectsDir = "/run/objects"
)

// pods makes the three pods as a node makes them: a leg in the pod network, a leg
// on the VLAN with the serverIP, forwarding switched on as every Kubernetes node
// has it, and the sysctls that the Deployment asks for. Then it
// shows that such a pod is a way from the VLAN to the pod network, runs the
// fence, and shows that it is none any more.
func (w *World) pods(ctx context.Context) error {
	w.Pods = Pods{
		DHCP:  &Pod{Component: "dhcp", IP: dhcpPodIP},
		DNS:   &Pod{Component: "dns", IP: dnsPodIP},
		Proxy: &Pod{Component: "proxy", IP: proxyPodIP},
	}
	next := victimFirst
	for _, p := range w.Pods.all() {
		p.Victim, next = next, next.Next()
		if err := w.pod(ctx, p); err != nil {
			return fmt.Errorf("pod %s: %w", p.Component, err)
		}
	}
	if err := w.victim(ctx); err != nil {
		return fmt.Errorf("the victim: %w", err)
	}
	for _, p := range w.Pods.all() {
		if err := w.throughPod(ctx, p, "answer"); err != nil {
			return fmt.Errorf("without its fence pod %s forwards, and this check would see it: %w", p.Component, err)
		}
	}
	for _, p := range w.Pods.all() {
		if err := w.fence(ctx, p); err != nil {
			return fmt.Errorf("fence of pod %s: %w", p.Component, err)
		}
	}
	for _, p := range w.Pods.all() {
		if err := w.throughPod(ctx, p, "unanswered"); err != nil {
			return fmt.Errorf("behind its fence pod %s forwards nothing: %w", p.Component, err)
		}
	}
	return nil
}

func (w *World) pod(ctx context.Context, p *Pod) error {
	planned, _, err := w.workload("plan-1", p.Component)
	if err != nil {
		return err
	}
	p.spec = planned.Spec.Template.Spec
	device, address, err := planned.vlan()
	if err != nil {
		return err
	}
	p.Device, p.VLAN = device, address.Addr()
	if p.Host, err = w.podHost(ctx, p.Component, p.IP, leg{"vlan", device, "", []netip.Prefix{address}}); err != nil {
		return err
	}
	if err := p.Host.Sysctl(ctx, "net.ipv4.ip_forward", "1"); err != nil {
		return err
	}
	for _, s := range p.spec.SecurityContext.Sysctls {
		if err := p.Host.Sysctl(ctx, s.Name, s.Value); err != nil {
			return err
		}
	}
	if _, err := p.Host.Run(ctx, "install", "-d", "-o", podUser(), "-g", podUser(), podBin, runDir, stateDir, configDir, objectsDir); err != nil {
		return err
	}
	return w.configure(ctx, p, "plan-1")
}

// podUser owns a pod's directories, as fsGroup makes it in a cluster.
func podUser() string {
	if lab.PodUserExists() {
		return lab.PodUID
	}
	return "0"
}

// victim makes the pod that must stay out of reach. It answers a VLAN address
// through the pod that a request came by, so that what keeps a connection from
// coming about is the fence alone.
func (w *World) victim(ctx context.Context) (err error) {
	if w.Victim, err = w.podHost(ctx, "victim", victimFirst); err != nil {
		return err
	}
	var part actor.Servers
	for i, p := range w.Pods.all() {
		if p.Victim != victimFirst {
			if err := w.Victim.Addr(ctx, "eth0", on(podCIDR, p.Victim)); err != nil {
				return err
			}
		}
		table := strconv.Itoa(100 + i)
		for _, args := range [][]string{
			{"ip", "route", "add", w.Network.CIDR.String(), "via", p.IP.String(), "table", table},
			{"ip", "rule", "add", "from", p.Victim.String(), "to", w.Network.CIDR.String(), "lookup", table},
		} {
			if _, err := w.Victim.Run(ctx, args...); err != nil {
				return err
			}
		}
		part.Servers = append(part.Servers, actor.Server{
			Address: netip.AddrPortFrom(p.Victim, VictimPort).String(), Service: "victim",
		})
	}
	_, err = w.act(w.Victim, "serve", part)
	return err
}

// throughPod sends a request from the VLAN's gateway to the victim, routed
// through the pod's VLAN address, and wants it to end at the stage given.
func (w *World) throughPod(ctx context.Context, p *Pod, stage string) error {
	if _, err := w.Gateway.Run(ctx, "ip", "route", "replace", p.Victim.String(), "via", p.VLAN.String()); err != nil {
		return err
	}
	probe := actor.Probe{Address: netip.AddrPortFrom(p.Victim, VictimPort).String(), Plain: true, Host: "victim", Patience: 500}
	try := func(ctx context.Context) error {
		out, err := Ask[actor.Outcome](ctx, w, w.Gateway, "probe", probe)
		if err == nil && out.Stage != stage {
			err = fmt.Errorf("the request ended at stage %q, not %q: %s", out.Stage, stage, out.Error)
		}
		return err
	}
	// The victim may be starting still.
	return lab.Until(ctx, soon, "the victim", try)
}

// fence runs the first init container of the pod, and nothing but it.
func (w *World) fence(ctx context.Context, p *Pod) error {
	if len(p.spec.InitContainers) == 0 || p.spec.InitContainers[0].binary() != "fence" {
		return errors.New("the pod's first init container is no fence")
	}
	return w.runInit(ctx, p, p.spec.InitContainers[0])
}

// configure hands a plan to a pod. Each file is replaced as a whole, as in a
// ConfigMap's mount.
func (w *World) configure(ctx context.Context, p *Pod, plan string) error {
	_, config, err := w.workload(plan, p.Component)
	if err != nil {
		return err
	}
	for name, content := range config {
		file := configDir + "/" + name
		if err := p.Host.WriteFile(ctx, file+".new", string(content)); err != nil {
			return err
		}
		if _, err := p.Host.Run(ctx, "mv", file+".new", file); err != nil {
			return err
		}
	}
	return nil
}
