package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/lab"
)

// Pod is one of the three pods of oooi.
type Pod struct {
	Host *lab.Host
	// Component is the name that the plan's objects end in.
	Component string
	// IP is its address in the pod network, VLAN its address on the VLAN.
	IP   netip.Addr
	VLAN netip.Addr
	// Victim is the victim's address whose answers are routed through this pod.
	Victim netip.Addr
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

// VLANDevice is a pod's device on the VLAN, as the operator has Multus name it;
// eth0 is the one in the pod network.
const VLANDevice = "vlan0"

// Paths inside a pod, which has its own /run.
const (
	podBin   = "/run/bin"
	stateDir = "/run/oooi/state"
	snapshot = "/run/oooi/snapshot.json"
)

// pods makes the three pods as a node makes them: a leg in the pod network, a leg
// on the VLAN with the serverIP, forwarding switched on as every Kubernetes node
// has it, and low ports open to everybody by the pod's own safe sysctl. Then it
// shows that such a pod is a way from the VLAN to the pod network, runs the
// fence, and shows that it is none any more.
func (w *World) pods(ctx context.Context) error {
	w.Pods = Pods{
		DHCP:  &Pod{Component: "dhcp", IP: dhcpPodIP, VLAN: w.Network.DHCP},
		DNS:   &Pod{Component: "dns", IP: dnsPodIP, VLAN: w.Network.DNS},
		Proxy: &Pod{Component: "proxy", IP: proxyPodIP, VLAN: w.Network.Proxy},
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
		if err := w.throughPod(ctx, p, "dial"); err != nil {
			return fmt.Errorf("behind its fence pod %s forwards nothing: %w", p.Component, err)
		}
	}
	return nil
}

func (w *World) pod(ctx context.Context, p *Pod) (err error) {
	p.Host, err = w.podHost(ctx, p.Component, p.IP,
		leg{"vlan", VLANDevice, "", []netip.Prefix{on(w.Network.CIDR, p.VLAN)}})
	if err != nil {
		return err
	}
	for key, value := range map[string]string{
		"net.ipv4.ip_forward":                 "1",
		"net.ipv4.ip_unprivileged_port_start": "0",
	} {
		if err := p.Host.Sysctl(ctx, key, value); err != nil {
			return err
		}
	}
	_, err = p.Host.Run(ctx, "install", "-d", "-o", podUser(), "-g", podUser(), podBin, "/run/oooi", stateDir, "/run/oooi/objects")
	return err
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
	return lab.Until(ctx, 10*time.Second, "the victim", try)
}

// fence runs the init container of the pod: uid 0, NET_ADMIN and nothing else.
func (w *World) fence(ctx context.Context, p *Pod) error {
	if err := w.install(ctx, p, "fence"); err != nil {
		return err
	}
	_, err := p.Host.Exec(ctx, lab.Spec{
		Args:         []string{podBin + "/fence", "--server-ip", p.VLAN.String()},
		Unprivileged: true, UID: "0", Capabilities: []string{"net_admin"},
	})
	return err
}

// install puts a binary into a pod, as its image would: root's, for all to run.
func (w *World) install(ctx context.Context, p *Pod, binary string) error {
	_, err := p.Host.Run(ctx, "install", "-m", "755", filepath.Join(w.Bin, binary), podBin+"/"+binary)
	return err
}

// configure hands a plan to a pod. The file is replaced as a whole, as a
// ConfigMap's mount is.
func (w *World) configure(ctx context.Context, p *Pod, plan string) error {
	content, err := w.snapshot(plan, p.Component)
	if err != nil {
		return err
	}
	if err := p.Host.WriteFile(ctx, snapshot+".new", content); err != nil {
		return err
	}
	_, err = p.Host.Run(ctx, "mv", snapshot+".new", snapshot)
	return err
}

// environment is what the pods' containers find.
func (p *Pod) environment() []string {
	return []string{"POD_IP=" + p.IP.String(), "OOOI_SNAPSHOT=" + snapshot, "OOOI_STATE_DIR=" + stateDir, "OOOI_FENCE=on"}
}

// daemons starts what runs in the pods and waits until all are ready.
func (w *World) daemons(ctx context.Context) error {
	for _, p := range w.Pods.all() {
		if err := w.configure(ctx, p, "plan-1"); err != nil {
			return err
		}
	}
	for _, start := range []func(context.Context) error{w.dhcpd, w.coredns, w.proxy} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	for _, at := range []struct {
		pod  *Pod
		port uint16
	}{{w.Pods.DHCP, 9091}, {w.Pods.DNS, 9093}, {w.Pods.Proxy, 9090}} {
		if err := w.ready(ctx, netip.AddrPortFrom(at.pod.IP, at.port)); err != nil {
			return err
		}
	}
	return nil
}

// ready asks as a kubelet's readiness probe does.
func (w *World) ready(ctx context.Context, at netip.AddrPort) error {
	probe := actor.Probe{Address: at.String(), Plain: true, Host: at.String(), Path: "/ready"}
	return lab.Until(ctx, soon, probe.Address+"/ready", func(ctx context.Context) error {
		out, err := Ask[actor.Outcome](ctx, w, w.node, "probe", probe)
		if err == nil && out.Status != http.StatusOK {
			err = fmt.Errorf("stage %s, status %d %s", out.Stage, out.Status, out.Error)
		}
		return errors.Join(err, w.Ended())
	})
}

// dhcpd sends raw frames, which its container may by a capability on its file.
func (w *World) dhcpd(ctx context.Context) error {
	p := w.Pods.DHCP
	if err := w.install(ctx, p, "dhcpd"); err != nil {
		return err
	}
	if lab.PodUserExists() {
		if _, err := p.Host.Run(ctx, "setcap", "cap_net_raw+ep", podBin+"/dhcpd"); err != nil {
			return err
		}
	}
	if err := p.Host.WriteFile(ctx, "/run/oooi/objects/instances.yaml", string(w.Instances)); err != nil {
		return err
	}
	_, err := w.start(p.Host, "dhcpd", lab.Spec{
		Args: []string{podBin + "/dhcpd", "serve", "--listen", p.IP.String() + ":9091", "--objects", "/run/oooi/objects"},
		Env:  p.environment(), Unprivileged: true, Capabilities: []string{"net_raw"},
	})
	return err
}

// coredns needs no Corefile: its own takes everything from the environment.
func (w *World) coredns(ctx context.Context) error {
	p := w.Pods.DNS
	if err := w.install(ctx, p, "coredns"); err != nil {
		return err
	}
	_, err := w.start(p.Host, "coredns", lab.Spec{
		Args: []string{podBin + "/coredns"},
		Env:  p.environment(), Unprivileged: true,
	})
	return err
}

// proxy runs the manager's two containers and Envoy beside it, each starting the
// next.
func (w *World) proxy(ctx context.Context) error {
	p := w.Pods.Proxy
	if err := w.install(ctx, p, "xds-manager"); err != nil {
		return err
	}
	// Too big for a copy: the pod sees the machine's file.
	for _, args := range [][]string{
		{"touch", podBin + "/envoy"},
		{"mount", "--bind", w.Envoy, podBin + "/envoy"},
	} {
		if _, err := p.Host.Run(ctx, args...); err != nil {
			return err
		}
	}
	manager := podBin + "/xds-manager"
	if _, err := p.Host.Exec(ctx, lab.Spec{Args: []string{manager, "bootstrap"}, Env: p.environment(), Unprivileged: true}); err != nil {
		return err
	}
	if _, err := w.start(p.Host, "xds-manager", lab.Spec{
		Args: []string{manager, "serve", "--listen", p.IP.String() + ":9090"},
		Env:  p.environment(), Unprivileged: true,
	}); err != nil {
		return err
	}
	_, err := w.start(p.Host, "envoy", lab.Spec{
		Args: []string{podBin + "/envoy", "-c", "/run/oooi/bootstrap.yaml", "--concurrency", "1", "--disable-hot-restart"},
		Env:  p.environment(), Unprivileged: true,
	})
	return err
}
