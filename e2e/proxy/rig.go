package proxy

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

// The addresses of the fixture that every snapshot of this repository speaks of.
var (
	VLANIP   = netip.MustParseAddr("192.0.2.4")
	PodIP    = netip.MustParseAddr("10.128.0.4")
	WorkerA  = netip.MustParseAddr("192.0.2.101")
	WorkerA2 = netip.MustParseAddr("192.0.2.102")
	WorkerB  = netip.MustParseAddr("192.0.2.150")
	Stranger = netip.MustParseAddr("192.0.2.50")
	HubIP    = netip.MustParseAddr("10.128.0.9")
	VIPA     = netip.MustParseAddr("192.0.2.200")
	VIPB     = netip.MustParseAddr("192.0.2.210")
)

// patience is how long a busy machine may take for what an idle one does at once.
const patience = 10 * time.Second

// Rig is a proxy pod between a VLAN with VMs and a pod network with services.
type Rig struct {
	Dir   string
	Pod   *lab.Host
	VMs   *lab.Host
	Hub   *lab.Host
	Envoy *lab.Process
	// Manager is nil until StartManager.
	Manager *lab.Process
	// Drain is the drain time of both.
	Drain time.Duration
	// ManagerArgs are added to the manager's.
	ManagerArgs []string
	// EnvoyArgs are added to Envoy's.
	EnvoyArgs []string
	// EnvoyMemory is the memory limit of Envoy's container in bytes, as the
	// bootstrap hears of it; empty = none.
	EnvoyMemory string
	// EnvoyLimit is Envoy's limit of descriptors as prlimit(1) has it, soft and
	// hard; empty = what there is.
	EnvoyLimit string

	manager, envoy string
	sw             *lab.Host
}

// Binaries says where the programs under test are.
func Binaries(ctx context.Context, dir string) (manager, envoy string, err error) {
	root, err := repository()
	if err != nil {
		return "", "", err
	}
	envoy = cmp.Or(os.Getenv("ENVOY"), filepath.Join(root, "bin/tools/envoy"))
	if !exists(envoy) {
		return "", "", fmt.Errorf("no Envoy at %s: run `make envoy`, or name one in $ENVOY", envoy)
	}
	manager, err = builtManager(ctx, root, dir)
	return manager, envoy, err
}

// repository is the root of the repository that the working directory lies in.
func repository() (string, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	for ; !exists(filepath.Join(root, "go.work")); root = filepath.Dir(root) {
		if root == "/" {
			return "", errors.New("the repository's root is not above the working directory")
		}
	}
	return root, nil
}

var managerOnce struct {
	sync.Mutex
	content []byte
}

// builtManager compiles the manager once a process, and puts it where a program
// without rights can read it.
func builtManager(ctx context.Context, root, dir string) (string, error) {
	managerOnce.Lock()
	defer managerOnce.Unlock()
	out := filepath.Join(dir, "xds-manager")
	if managerOnce.content == nil {
		if err := buildManager(ctx, root, out); err != nil {
			return "", err
		}
		b, err := os.ReadFile(out)
		if err != nil {
			return "", err
		}
		managerOnce.content = b
	}
	return out, os.WriteFile(out, managerOnce.content, 0o755)
}

func buildManager(ctx context.Context, root, out string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", out}, flags...), "./cmd/xds-manager")...)
	cmd.Dir = filepath.Join(root, "xds-manager")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building xds-manager: %w: %s", err, said)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// NewRig lays the networks out; nothing runs yet. Dir must be writable for all.
func NewRig(ctx context.Context, l *lab.Lab, dir string) (*Rig, error) {
	r := &Rig{Dir: dir, Drain: 600 * time.Second}
	if err := os.Chmod(dir, 0o777); err != nil {
		return nil, err
	}
	var err error
	if r.manager, r.envoy, err = Binaries(ctx, dir); err != nil {
		return nil, err
	}
	sw, err := l.Host("switch")
	if err != nil {
		return nil, err
	}
	r.sw = sw
	for _, b := range []string{"vlan", "pods"} {
		if err := sw.Bridge(ctx, b); err != nil {
			return nil, err
		}
	}
	for name, p := range map[string]**lab.Host{"pod": &r.Pod, "vms": &r.VMs, "hub": &r.Hub} {
		if *p, err = l.Host(name); err != nil {
			return nil, err
		}
	}
	return r, errors.Join(r.plug(ctx, sw), r.sysctls(ctx))
}

// in24 gives addresses the prefix length that both networks have.
func in24(addrs ...netip.Addr) []netip.Prefix {
	out := make([]netip.Prefix, len(addrs))
	for i, a := range addrs {
		out[i] = netip.PrefixFrom(a, 24)
	}
	return out
}

func (r *Rig) plug(ctx context.Context, sw *lab.Host) error {
	return errors.Join(
		r.Pod.Plug(ctx, sw, "pods", lab.Link{Device: "eth0", Addresses: in24(PodIP)}),
		r.PlugVLAN(ctx),
		r.VMs.Plug(ctx, sw, "vlan", lab.Link{Device: "eth0", Addresses: in24(WorkerA, WorkerA2, WorkerB, Stranger, VIPA, VIPB)}),
		r.Hub.Plug(ctx, sw, "pods", lab.Link{Device: "eth0", Addresses: in24(HubIP)}),
		r.Pod.Route(ctx, "172.30.0.0/16 via "+HubIP.String()),
		r.VMs.Route(ctx, "10.128.0.0/24 via "+VLANIP.String()),
		r.Hub.Route(ctx, "local 172.30.0.0/16 dev lo"),
		r.Hub.Route(ctx, "192.0.2.0/24 via "+PodIP.String()),
	)
}

// PlugVLAN gives the pod its VLAN device.
func (r *Rig) PlugVLAN(ctx context.Context) error {
	return r.Pod.Plug(ctx, r.sw, "vlan", lab.Link{Device: "net1", Addresses: in24(VLANIP)})
}

// sysctls are the pod's safe one, and for the load tests a wide port range.
func (r *Rig) sysctls(ctx context.Context) error {
	errs := []error{r.Pod.Sysctl(ctx, "net.ipv4.ip_unprivileged_port_start", "0")}
	for _, h := range []*lab.Host{r.VMs, r.Pod} {
		errs = append(errs, h.Sysctl(ctx, "net.ipv4.ip_local_port_range", "10240 65000"))
	}
	return errors.Join(errs...)
}

// Path is a file of the rig.
func (r *Rig) Path(name string) string { return filepath.Join(r.Dir, name) }

// WriteSnapshot replaces the mounted snapshot as a whole.
func (r *Rig) WriteSnapshot(content []byte) error {
	tmp := r.Path("snapshot.new")
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, r.Path("snapshot.json"))
}

// StartManager starts the manager as its container does: no capability.
func (r *Rig) StartManager() error {
	args := []string{
		r.manager, "serve", "--snapshot", r.Path("snapshot.json"), "--xds-socket", r.Path("xds.sock"),
		"--admin-socket", r.Path("admin.sock"), "--listen", PodIP.String() + ":9090", "--pod-ip", PodIP.String(),
		"--drain-time", r.Drain.String(),
	}
	p, err := r.Pod.Start(lab.Spec{Args: append(args, r.ManagerArgs...), Unprivileged: true})
	r.Manager = p
	return err
}

// StartEnvoy writes the bootstrap as the init container does and starts Envoy.
func (r *Rig) StartEnvoy(ctx context.Context) error {
	boot := r.Path("bootstrap.yaml")
	_, err := r.Pod.Exec(ctx, lab.Spec{Unprivileged: true, Env: []string{"OOOI_ENVOY_MEMORY=" + r.EnvoyMemory}, Args: []string{
		r.manager, "bootstrap", "--out", boot,
		"--xds-socket", r.Path("xds.sock"), "--admin-socket", r.Path("admin.sock"), "--pod-ip", PodIP.String(),
	}})
	if err != nil {
		return err
	}
	args := []string{
		r.envoy, "-c", boot, "--concurrency", "2", "--disable-hot-restart",
		"--drain-time-s", fmt.Sprint(int(r.Drain.Seconds())), "--drain-strategy", "immediate",
		// The access log's own buffer would hold lines back for ten seconds.
		"--file-flush-interval-msec", "200",
	}
	if r.EnvoyLimit != "" {
		args = append([]string{"prlimit", "--nofile=" + r.EnvoyLimit}, args...)
	}
	r.Envoy, err = r.Pod.Start(lab.Spec{Args: append(args, r.EnvoyArgs...), Unprivileged: true})
	return err
}

// Start starts both and waits until the manager is ready.
func (r *Rig) Start(ctx context.Context) error {
	if err := r.StartManager(); err != nil {
		return err
	}
	if err := r.StartEnvoy(ctx); err != nil {
		return err
	}
	return r.Ready(ctx)
}

// Ready waits until the manager says that the listeners are in force.
func (r *Rig) Ready(ctx context.Context) error {
	return lab.Until(ctx, 2*time.Minute, "the manager is ready", func(ctx context.Context) error {
		if err := r.Manager.Running(); err != nil {
			return err
		}
		code, body, err := r.Get(ctx, r.Hub, netip.AddrPortFrom(PodIP, 9090), "/ready", "")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("/ready says %d %s", code, strings.TrimSpace(body))
		}
		return err
	})
}

// Get asks by HTTP from a host; host is the Host header.
func (r *Rig) Get(ctx context.Context, from *lab.Host, to netip.AddrPort, path, host string) (int, string, error) {
	c, err := Dial(ctx, from, netip.Addr{}, to)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = c.Close() }()
	return Ask(ctx, c, path, host)
}

// Ask sends one GET on a connection and reads the answer.
func Ask(ctx context.Context, c net.Conn, path, host string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x"+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Host = cmp.Or(host, "x")
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 0, "", err
	}
	if err := req.Write(c); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// Admin asks Envoy's administration socket.
func (r *Rig) Admin(ctx context.Context, path string) (string, error) {
	c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", r.Path("admin.sock"))
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	code, body, err := Ask(ctx, c, path, "envoy")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, code, body)
	}
	return body, err
}

// Stat is one of Envoy's counters or gauges, 0 where it has none of that name.
func (r *Rig) Stat(ctx context.Context, name string) (int, error) {
	body, err := r.Admin(ctx, "/stats?format=json&filter=^"+strings.ReplaceAll(name, ".", "%5C.")+"$")
	if err != nil {
		return 0, err
	}
	var out struct {
		Stats []struct {
			Name  string `json:"name"`
			Value int    `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		return 0, fmt.Errorf("reading statistics: %w: %s", err, body)
	}
	for _, s := range out.Stats {
		if s.Name == name {
			return s.Value, nil
		}
	}
	return 0, nil
}

// Probe connects, sends data in chunks (0 = at once) and answers with the name
// of the backend that replied, or with how it came to none: "refused" is a
// connection that the other side did not take, "unanswered" one that it said
// nothing to, "closed" one that it took and ended, "silent" one that it took and
// said nothing on. Anything else is told in its own words.
func Probe(ctx context.Context, h *lab.Host, from netip.Addr, to netip.AddrPort, data []byte, chunk int) string {
	c, name := Open(ctx, h, from, to, data, chunk)
	if c != nil {
		_ = c.Close()
	}
	return name
}

// Open is Probe that keeps the connection; it is nil unless a backend replied.
func Open(ctx context.Context, h *lab.Host, from netip.Addr, to netip.AddrPort, data []byte, chunk int) (*net.TCPConn, string) {
	c, err := Dial(ctx, h, from, to)
	if err != nil {
		return nil, outcome(err, map[string]func(error) bool{"unanswered": late, "refused": is(syscall.ECONNREFUSED)})
	}
	name, err := hear(c, data, chunk)
	if err != nil {
		_ = c.Close()
		return nil, unheard(err)
	}
	return c, name
}

// unheard is the word for hear's error.
func unheard(err error) string {
	return outcome(err, map[string]func(error) bool{"silent": late, "closed": is(io.EOF, syscall.ECONNRESET, syscall.EPIPE)})
}

// outcome is the word for an error, or what the error says.
func outcome(err error, words map[string]func(error) bool) string {
	for word, fits := range words {
		if fits(err) {
			return word
		}
	}
	return err.Error()
}

func late(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func is(any ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(any, func(one error) bool { return errors.Is(err, one) })
	}
}

func hear(c *net.TCPConn, data []byte, chunk int) (string, error) {
	if chunk == 0 {
		chunk = len(data)
	}
	for len(data) > 0 {
		n := min(chunk, len(data))
		if _, err := c.Write(data[:n]); err != nil {
			return "", err
		}
		data = data[n:]
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	// Byte by byte: what follows the line is not ours.
	var name []byte
	for one := make([]byte, 1); ; {
		if _, err := c.Read(one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return string(name), c.SetReadDeadline(time.Time{})
		}
		name = append(name, one[0])
	}
}
