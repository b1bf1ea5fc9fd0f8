package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Options say what to bring up.
type Options struct {
	// Dir keeps the cluster's state; it must not lie below /etc, /opt, /var or
	// /run, which the boxes see in versions of their own.
	Dir string
	// Tools is the directory of the binaries: etcd, kube-apiserver,
	// kube-controller-manager, kube-scheduler, kubectl, kubelet, kube-proxy,
	// multus and pause.
	Tools string
	// Nodes is the number of nodes.
	Nodes int
	// NetworkPolicy has kube-router enforce NetworkPolicies on the nodes.
	NetworkPolicy bool
	// Progress gets a line a step.
	Progress *Progress
}

// Cluster is a cluster that is up.
type Cluster struct {
	opts  Options
	mu    sync.Mutex // guards state, also as it is on disk
	state state
	pki   *Authority
	// stops end the daemons of the control plane, by name.
	stops map[string]func()

	// Switch is the box that holds both bridges.
	Switch *Box
	// Control is the box of the control plane.
	Control *Box
	// World is the box that every default route leads to.
	World *Box
	// Nodes are the boxes of the nodes, the first at index 0.
	Nodes []*Box
}

// state is what Down needs.
type state struct {
	ID string `json:"id"`
	// Owner is the process that has brought it up, as process tells it.
	Owner   string   `json:"owner"`
	Tools   string   `json:"tools"`
	Netns   []string `json:"netns"`
	Boxes   []*Box   `json:"boxes"`
	Cgroups []string `json:"cgroups"`
}

// Up brings a cluster up. What is made is written to Options.Dir first, so Down
// works also after a failure.
func Up(ctx context.Context, opts Options) (*Cluster, error) {
	if err := check(ctx, opts); err != nil {
		return nil, err
	}
	id := make([]byte, 2)
	if _, err := rand.Read(id); err != nil {
		return nil, fmt.Errorf("making the cluster's id: %w", err)
	}
	c := &Cluster{opts: opts, state: state{ID: "e2e" + hex.EncodeToString(id), Owner: process(os.Getpid()), Tools: opts.Tools}, stops: map[string]func(){}}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	if err := c.note(func(*state) {}); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{c.buildSwitch, c.startWorld, c.startControl, c.startNodes} {
		if err := step(ctx); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Load finds a cluster that another process has brought up.
func Load(dir string, progress *Progress) (*Cluster, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if err != nil {
		return nil, fmt.Errorf("finding a cluster: %w", err)
	}
	c := &Cluster{opts: Options{Dir: dir, Progress: progress}, pki: &Authority{dir: filepath.Join(dir, "pki")}}
	if err := json.Unmarshal(raw, &c.state); err != nil {
		return nil, fmt.Errorf("reading the cluster's state: %w", err)
	}
	c.opts.Tools = c.state.Tools
	for _, box := range c.state.Boxes {
		switch {
		case box.Name == "control":
			c.Control = box
		case box.Name == "switch":
			c.Switch = box
		case box.Name == "world":
			c.World = box
		case strings.HasPrefix(box.Name, "node"):
			c.Nodes = append(c.Nodes, box)
		}
	}
	c.opts.Nodes = len(c.Nodes)
	return c, nil
}

// Box finds the box of a node, of a VM, or "control", "switch" or "world". The
// one that was started last has the name.
func (c *Cluster) Box(name string) (*Box, error) {
	for _, box := range slices.Backward(c.state.Boxes) {
		if box.Name == name {
			return box, nil
		}
	}
	return nil, fmt.Errorf("the cluster has no box %s", name)
}

// Down removes everything that Up and VM have made, and the state directory
// with it.
func (c *Cluster) Down(ctx context.Context) error {
	var errs []error
	for _, box := range c.state.Boxes {
		errs = append(errs, box.Kill(ctx))
	}
	for _, ns := range c.state.Netns {
		if _, err := os.Stat("/run/netns/" + ns); err == nil {
			errs = append(errs, ip(ctx, "netns del "+ns))
		}
	}
	for _, cgroup := range c.state.Cgroups {
		errs = append(errs, removeCgroup(ctx, cgroup))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.RemoveAll(c.opts.Dir); err != nil {
		return fmt.Errorf("removing the state directory: %w", err)
	}
	c.opts.Progress.Say("the cluster is down, nothing is left of it")
	return nil
}

// note writes down what is made next.
func (c *Cluster) note(change func(*state)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.state)
	raw, err := json.MarshalIndent(c.state, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.opts.Dir, "state.json"), raw, 0o600); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

// box starts a box and writes it down.
func (c *Cluster) box(ctx context.Context, name, netns string) (*Box, error) {
	box, err := startBox(ctx, name, netns, filepath.Join(c.opts.Dir, "log", name))
	if box != nil {
		err = errors.Join(err, c.note(func(s *state) { s.Boxes = append(s.Boxes, box) }))
	}
	return box, err
}

func (c *Cluster) startWorld(ctx context.Context) error {
	ns, err := c.member(ctx, "world", worldIP)
	if err != nil {
		return err
	}
	if err := c.routePods(ctx, ns, 0); err != nil {
		return err
	}
	c.World, err = c.box(ctx, "world", ns)
	return err
}

// Kubectl runs kubectl as the cluster's administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlIn(ctx, "", args...)
}

// KubectlIn runs kubectl with something to read.
func (c *Cluster) KubectlIn(ctx context.Context, stdin string, args ...string) (string, error) {
	all := append([]string{"--kubeconfig", c.Kubeconfig()}, args...)
	cmd := c.Control.Command(ctx, filepath.Join(c.opts.Tools, "kubectl"), all...)
	cmd.Stdin = strings.NewReader(stdin)
	return output(cmd)
}

// Apply applies manifests server-side.
func (c *Cluster) Apply(ctx context.Context, manifests string) error {
	_, err := c.KubectlIn(ctx, manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// Kubeconfig is the path of the administrator's kubeconfig. Its server is
// reachable from inside the boxes.
func (c *Cluster) Kubeconfig() string { return c.pki.Path("admin.kubeconfig") }

// ID is what the names of its network namespaces begin with.
func (c *Cluster) ID() string { return c.state.ID }

// Owned tells whether the process that has brought it up still runs.
func (c *Cluster) Owned() bool {
	var pid int
	_, err := fmt.Sscan(c.state.Owner, &pid)
	return err == nil && process(pid) == c.state.Owner
}

// process is a process's number and when it has begun, in ticks since the machine's
// start (proc_pid_stat(5)): its number may be another's by now. Empty: there is none.
func process(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	const starttime = 22 - 3 // counted from what follows the name, which is in brackets
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fmt.Sprintf("%d %s", pid, fields[starttime])
}

// Dir is the state directory.
func (c *Cluster) Dir() string { return c.opts.Dir }
