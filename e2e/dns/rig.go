package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

// The addresses of the fixture that every snapshot of this repository speaks of.
const (
	ServerIP   = "192.0.2.3"
	PodIP      = "10.128.0.5"
	WorkerIP   = "192.0.2.101"
	OtherIP    = "192.0.2.150" // a worker of another cluster
	StrangerIP = "203.0.113.9"
	FarIP      = "198.51.100.77" // a stranger too
	ClientIP   = "10.128.0.7"
	UpstreamIP = "10.128.0.53"
)

// Rig is a DNS pod between a VLAN with one VM, which plays every client there, and
// a pod network with one pod and one resolver.
type Rig struct {
	Dir      string
	Server   *lab.Host
	VM       *lab.Host
	Pod      *lab.Host
	Node     *lab.Host // holds the upstream
	CoreDNS  *lab.Process
	Upstream *lab.Process
	Env      []string // added to CoreDNS's

	root string
	sw   *lab.Host
}

// Root is the repository.
func Root() (string, error) {
	dir, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the repository's root is not above the working directory")
}

var built sync.Map // binary's name -> its content

// Build compiles a program once a process into dir, readable for all.
func Build(ctx context.Context, dir, name, module, pkg string, env ...string) (string, error) {
	out := filepath.Join(dir, name)
	if content, ok := built.Load(name); ok {
		return out, os.WriteFile(out, content.([]byte), 0o755) //nolint:gosec,forcetypeassert // a program
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), append([]string{"GOWORK=off"}, env...)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", name, err, said)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		return "", err
	}
	built.Store(name, content)
	return out, nil
}

// NewRig lays the networks out and starts the upstream; CoreDNS does not run yet.
func NewRig(ctx context.Context, l *lab.Lab, dir string) (*Rig, error) {
	r := &Rig{Dir: dir}
	var err error
	if r.root, err = Root(); err != nil {
		return nil, err
	}
	if err = os.Chmod(dir, 0o777); err != nil { //nolint:gosec // for a program without rights
		return nil, err
	}
	sw, err := l.Host("switch")
	if err != nil {
		return nil, err
	}
	r.sw = sw
	for _, bridge := range []string{"vlan", "pods"} {
		if err = sw.Bridge(ctx, bridge); err != nil {
			return nil, err
		}
	}
	for _, h := range []struct {
		host   **lab.Host
		name   string
		bridge string
		link   lab.Link
	}{
		{&r.Server, "dns", "vlan", vlanLink()},
		{&r.Server, "dns", "pods", lab.Link{Device: "eth0", Addresses: prefixes(PodIP + "/24")}},
		{&r.VM, "vm", "vlan", lab.Link{Device: "eth0", Addresses: prefixes(WorkerIP+"/24", OtherIP+"/24", StrangerIP+"/32", FarIP+"/32")}},
		{&r.Pod, "pod", "pods", lab.Link{Device: "eth0", Addresses: prefixes(ClientIP + "/24")}},
		{&r.Node, "node", "pods", lab.Link{Device: "eth0", Addresses: prefixes(UpstreamIP + "/24")}},
	} {
		if *h.host == nil {
			if *h.host, err = l.Host(h.name); err != nil {
				return nil, err
			}
		}
		if err = (*h.host).Plug(ctx, sw, h.bridge, h.link); err != nil {
			return nil, err
		}
	}
	if err = r.routes(ctx); err != nil {
		return nil, err
	}
	upstream, err := Build(ctx, dir, "upstream", filepath.Join(r.root, "e2e"), "./dns/upstream")
	if err != nil {
		return nil, err
	}
	r.Upstream, err = r.Node.Start(lab.Spec{Args: []string{upstream, "-listen", UpstreamIP + ":53"}})
	return r, err
}

func vlanLink() lab.Link { return lab.Link{Device: "net1", Addresses: prefixes(ServerIP + "/24")} }

// PlugVLAN gives the server its VLAN device anew.
func (r *Rig) PlugVLAN(ctx context.Context) error {
	return r.Server.Plug(ctx, r.sw, "vlan", vlanLink())
}

// routes: a VM that sends everything through the DNS server, a server that
// would forward it, and a default route in the pod as a real one has.
func (r *Rig) routes(ctx context.Context) error {
	return errors.Join(
		r.VM.Route(ctx, "default via "+ServerIP),
		r.Server.Route(ctx, "default via "+UpstreamIP),
		r.Pod.Route(ctx, "default via "+PodIP),
		r.Server.Sysctl(ctx, "net.ipv4.ip_forward", "1"),
		r.Server.Sysctl(ctx, "net.ipv4.ip_unprivileged_port_start", "0"),
	)
}

func prefixes(in ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(in))
	for i, s := range in {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// SnapshotFile is where CoreDNS reads its snapshot.
func (r *Rig) SnapshotFile() string { return filepath.Join(r.Dir, "dns.json") }

// Snapshot puts the repository's example into force, with the upstream of the
// rig and what change makes of it.
func (r *Rig) Snapshot(change ...string) error {
	data, err := os.ReadFile(filepath.Join(r.root, "e2e", "snapshots", "dns.json"))
	if err != nil {
		return err
	}
	text := strings.NewReplacer(append([]string{"198.51.100.53", UpstreamIP}, change...)...).Replace(string(data))
	return Replace(r.SnapshotFile(), text)
}

// Replace writes a file as a whole, as a mounted ConfigMap changes.
func Replace(file, text string) error {
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil { //nolint:gosec // for a program without rights
		return err
	}
	return os.Rename(file+".new", file)
}

// Start starts CoreDNS as its pod does, with no capability and as no particular
// user, and waits until it answers.
func (r *Rig) Start(ctx context.Context) error {
	coredns, err := Build(ctx, r.Dir, "coredns", filepath.Join(r.root, "corednsplugin"), "./cmd/coredns")
	if err != nil {
		return err
	}
	env := append([]string{"OOOI_SNAPSHOT=" + r.SnapshotFile(), "POD_IP=" + PodIP, "OOOI_SERVER_IP=" + ServerIP}, r.Env...)
	if r.CoreDNS, err = r.Server.Start(lab.Spec{Args: []string{coredns}, Env: env, Unprivileged: true}); err != nil {
		return err
	}
	return lab.Until(ctx, time.Minute, "CoreDNS to be ready", func(ctx context.Context) error {
		if err := r.CoreDNS.Running(); err != nil {
			return err
		}
		_, err := r.Pod.Run(ctx, "curl", "-sf", "-m", "1", "http://"+PodIP+":9093/ready")
		return err
	})
}

// Dig runs dig in a host and returns its answer in one line: the status and the
// answers' data.
func (r *Rig) Dig(ctx context.Context, h *lab.Host, args ...string) (string, error) {
	out, err := h.Run(ctx, append([]string{"dig", "+time=5", "+tries=2", "+nocookie"}, args...)...)
	if err != nil {
		return out, err
	}
	var sum []string
	section := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if _, rest, ok := strings.Cut(line, "status: "); ok {
			status, _, _ := strings.Cut(rest, ",")
			sum = append(sum, status)
		}
		if strings.HasPrefix(line, ";; ") {
			section = line
		}
		if section == ";; ANSWER SECTION:" && line != "" && line[0] != ';' {
			if f := strings.Fields(line); len(f) > 4 {
				sum = append(sum, strings.Join(f[4:], " "))
			}
		}
	}
	return strings.Join(sum, " "), nil
}

// Asked lists the questions that reached the upstream, as "name type".
func (r *Rig) Asked() []string {
	var out []string
	for line := range strings.Lines(r.Upstream.Output()) {
		if q, ok := strings.CutPrefix(strings.TrimSpace(line), "QUERY "); ok {
			out = append(out, q)
		}
	}
	return out
}
