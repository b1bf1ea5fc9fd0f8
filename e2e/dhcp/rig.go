package dhcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

// The network of the tests.
const (
	serverIP  = "192.0.2.2"
	serverMAC = "02:00:5e:10:00:02"
	relayIP   = "192.0.2.250"
	remoteIP  = "203.0.113.1"
	device    = "net1"
	health    = "127.0.0.1:9091"
	namespace = "clusters-a"
	attached  = "default/vlan100"
)

// rig is a VLAN with a server.
type rig struct {
	lab    *lab.Lab
	sw     *lab.Host
	server *lab.Host
	dhcpd  *lab.Process
	dir    string
	binary string
	level  string   // of the log
	args   []string // further ones of the server
	// readOnly: the state directory cannot be written to.
	readOnly bool
	// plain: the container's security context lacks NET_RAW.
	plain bool
}

// machine is a virtual machine that the server knows.
type machine struct{ name, mac string }

// snapshot is the server's configuration; a minute is the shortest lease.
func snapshot(leaseSeconds int) map[string]any {
	return map[string]any{"dhcp": map[string]any{
		"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "serverIp": serverIP, "dnsServers": []string{"192.0.2.3"}, "mtu": 1500,
		"range": map[string]string{"start": "192.0.2.100", "end": "192.0.2.199"}, "leaseSeconds": leaseSeconds,
		"relays":             []string{remoteIP},
		"networkAttachments": []any{map[string]string{"namespace": "default", "name": "vlan100"}},
		"vmiNamespaces":      []string{namespace},
	}}
}

func newRig(ctx context.Context, l *lab.Lab, dir string, leaseSeconds int, machines []machine) (*rig, error) {
	r, err := prepareRig(ctx, l, dir, snapshot(leaseSeconds), objects(machines))
	if err != nil {
		return nil, err
	}
	return r, r.start(ctx)
}

// prepareRig is newRig without a server that runs.
func prepareRig(ctx context.Context, l *lab.Lab, dir string, config map[string]any, machines string) (*rig, error) {
	r := &rig{lab: l, dir: dir, level: "debug", args: []string{"--objects", filepath.Join(dir, "objects")}}
	var err error
	if r.sw, err = l.Host("switch"); err != nil {
		return nil, err
	}
	if err := r.sw.Bridge(ctx, "br0"); err != nil {
		return nil, err
	}
	if r.server, err = l.Host("server"); err != nil {
		return nil, err
	}
	if err := r.plug(ctx, r.server, device, serverMAC, serverIP+"/24"); err != nil {
		return nil, err
	}
	if err := r.install(ctx); err != nil {
		return nil, err
	}
	if err := r.configure(config); err != nil {
		return nil, err
	}
	for _, d := range []string{"objects", "state"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	return r, os.WriteFile(filepath.Join(dir, "objects", "machines.yaml"), []byte(machines), 0o644)
}

// configure writes a snapshot, all at once.
func (r *rig) configure(config map[string]any) error {
	b, err := json.Marshal(config)
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, "snapshot.json")
	if err := os.WriteFile(path+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// objects are the machines as KubeVirt shows them.
func objects(machines []machine) string {
	var b strings.Builder
	for _, m := range machines {
		fmt.Fprintf(&b, `---
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: %s, namespace: %s}
spec:
  domain: {devices: {interfaces: [{name: net, bridge: {}, macAddress: %q}]}}
  networks: [{name: net, multus: {networkName: %s}}]
`, m.name, namespace, m.mac, attached)
	}
	return b.String()
}

// plug joins a host to the VLAN.
func (r *rig) plug(ctx context.Context, h *lab.Host, dev, mac string, addrs ...string) error {
	link := lab.Link{Device: dev, MAC: mac}
	for _, a := range addrs {
		link.Addresses = append(link.Addresses, netip.MustParsePrefix(a))
	}
	return h.Plug(ctx, r.sw, "br0", link)
}

// install gives the server's binary the capability that its image has.
func (r *rig) install(ctx context.Context) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(root, "bin", "dhcpd"))
	if err != nil {
		return fmt.Errorf("dhcpd is not built (make build): %w", err)
	}
	r.binary = filepath.Join(r.dir, "dhcpd")
	if err := os.WriteFile(r.binary, b, 0o755); err != nil {
		return err
	}
	// The test's own directories are for its user alone.
	for d := r.dir; d != "/" && d != "/tmp"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			return err
		}
	}
	if _, err := r.server.Run(ctx, "setcap", "cap_net_raw+ep", r.binary); err != nil {
		return err
	}
	return r.server.Sysctl(ctx, "net.ipv4.ip_unprivileged_port_start", "0")
}

// withoutNetRaw has the server start without NET_RAW from now on. A file with a
// capability that the container may not have could not be started at all.
func (r *rig) withoutNetRaw(ctx context.Context) error {
	r.plain = true
	_, err := r.server.Run(ctx, "setcap", "-r", r.binary)
	return err
}

// start runs the server as its container does, and waits until it serves.
func (r *rig) start(ctx context.Context) error {
	state := filepath.Join(r.dir, "state")
	if lab.PodUserExists() && !r.readOnly {
		if _, err := r.server.Run(ctx, "chown", "-R", lab.PodUID, state); err != nil {
			return err
		}
	}
	capabilities := []string{"net_raw"}
	if r.plain {
		capabilities = nil
	}
	var err error
	r.dhcpd, err = r.server.Start(lab.Spec{
		Args: append([]string{
			r.binary, "serve", "--snapshot", filepath.Join(r.dir, "snapshot.json"),
			"--state-dir", state, "--listen", health, "--log-level", r.level,
		}, r.args...),
		Unprivileged: true, Capabilities: capabilities,
	})
	if err != nil {
		return err
	}
	return lab.Until(ctx, time.Minute, "the server", func(context.Context) error {
		if err := r.dhcpd.Running(); err != nil {
			return err
		}
		if !strings.Contains(r.dhcpd.Output(), `"msg":"serving"`) {
			return fmt.Errorf("not serving yet: %s", r.dhcpd.Output())
		}
		return nil
	})
}

// entry is one line of the server's log about a message.
type entry struct {
	Msg, Type, MAC, Reason, Answer, IP, Relay string
}

// kind is the type of the message; a first lease is logged without.
func (e entry) kind() string {
	if e.Msg == "lease given" {
		return "request"
	}
	return e.Type
}

// log is what the server has logged about a client's messages.
func (r *rig) log(mac string) []entry {
	var out []entry
	for line := range strings.Lines(r.dhcpd.Output()) {
		var e entry
		if json.Unmarshal([]byte(line), &e) == nil && e.MAC == mac {
			out = append(out, e)
		}
	}
	return out
}

// acks counts a client's REQUESTs that were acknowledged.
func (r *rig) acks(mac string) int {
	n := 0
	for _, e := range r.log(mac) {
		if e.Answer == "ack" || e.Msg == "lease given" {
			n++
		}
	}
	return n
}

// row is a line of `dhcpd leases --output json`.
type row struct{ IP, State, MACAddress, Until, VM string }

func (r *rig) leases(ctx context.Context) ([]row, error) {
	out, err := r.server.Run(ctx, r.binary, "leases", "--state-dir", filepath.Join(r.dir, "state"), "--output", "json")
	if err != nil {
		return nil, err
	}
	var rows []row
	return rows, json.Unmarshal([]byte(out), &rows)
}

// bound is the address that the journal has for a client.
func (r *rig) bound(ctx context.Context, mac string) (string, error) {
	rows, err := r.leases(ctx)
	if err != nil {
		return "", err
	}
	for _, x := range rows {
		if x.MACAddress == mac && x.State == "bound" {
			return x.IP, nil
		}
	}
	return "", fmt.Errorf("%s has no lease", mac)
}

// until is when a client's lease ends.
func (r *rig) until(ctx context.Context, mac string) (string, error) {
	rows, err := r.leases(ctx)
	for _, x := range rows {
		if x.MACAddress == mac {
			return x.Until, err
		}
	}
	return "", err
}

var errNoAddress = errors.New("eth0 has no address")

// address is the address that a host's device has.
func address(ctx context.Context, h *lab.Host) (string, error) {
	out, err := h.Run(ctx, "ip", "-4", "-j", "addr", "show", "dev", "eth0")
	if err != nil {
		return "", err
	}
	var devices []struct {
		AddrInfo []struct{ Local string } `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(out), &devices); err != nil {
		return "", err
	}
	for _, d := range devices {
		for _, a := range d.AddrInfo {
			return a.Local, nil
		}
	}
	return "", errNoAddress
}
