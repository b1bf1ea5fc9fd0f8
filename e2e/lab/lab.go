package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Lab is a set of hosts that come and go together.
type Lab struct {
	mu    sync.Mutex
	hosts []*Host // guarded by mu
}

// Host is one machine of the lab.
type Host struct {
	// Name is the host's name, also inside it.
	Name string

	init *exec.Cmd
	hold io.Closer
	gone chan struct{}
}

// New returns an empty lab, or says what this machine lacks for one.
func New() (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a lab of network namespaces needs root, or a user namespace: " +
			"unshare --user --map-root-user --net --mount COMMAND")
	}
	for _, tool := range []struct{ name, pkg string }{
		{"ip", "iproute2"}, {"nsenter", "util-linux"}, {"setpriv", "util-linux"}, {"mount", "mount"},
	} {
		if _, err := exec.LookPath(tool.name); err != nil {
			return nil, fmt.Errorf("%s is not installed (Debian package %s)", tool.name, tool.pkg)
		}
	}
	return &Lab{}, nil
}

// setup is what a host's first process does before the host counts as made.
// The resolver file may be a link into /run, which the host's own /run hides.
const setup = `set -e
mount --make-rprivate /
resolv=$(readlink -f /etc/resolv.conf)
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock
mount -t tmpfs tmpfs /dev/shm
: >/run/resolv.conf
case $resolv in
/run/*) mkdir -p "$(dirname "$resolv")"; ln -sf /run/resolv.conf "$resolv" ;;
*) mount --bind /run/resolv.conf "$resolv" ;;
esac
hostname "$1"
ip link set lo up
echo ready
exec cat >/dev/null
`

// Host makes a host. It has a loopback device and nothing else.
func (l *Lab) Host(name string) (*Host, error) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", setup, "sh", name)
	cmd.Env = environment(nil)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		// A terminal's Ctrl-C is for the maker alone, which then closes the lab in order.
		Setpgid: true,
	}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("making namespaces for host %s: %w", name, err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	h := &Host{Name: name, init: cmd, hold: hold, gone: make(chan struct{})}
	if line != "ready\n" {
		_ = cmd.Process.Kill()
		err := cmd.Wait()
		return nil, fmt.Errorf("setting up host %s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	go func() {
		defer close(h.gone)
		_ = cmd.Wait()
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts = append(l.hosts, h)
	return h, nil
}

// Hosts returns the hosts in the order in which they were made.
func (l *Lab) Hosts() []*Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*Host(nil), l.hosts...)
}

// Close removes every host with all that runs in it, the youngest first.
func (l *Lab) Close() {
	hosts := l.Hosts()
	for _, h := range slices.Backward(hosts) {
		h.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts = nil
}

// Close removes the host: its first process is killed, and with it all others.
func (h *Host) Close() {
	_ = h.hold.Close()
	_ = h.init.Process.Kill()
	<-h.gone
}

// PID is the process to enter the host by: nsenter --target PID --all.
func (h *Host) PID() int { return h.init.Process.Pid }

// Sysctl sets a kernel setting of the host, such as net.ipv4.ip_forward.
func (h *Host) Sysctl(ctx context.Context, key, value string) error {
	file := "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
	return h.WriteFile(ctx, file, value+"\n")
}

// WriteFile writes a file as the host sees it.
func (h *Host) WriteFile(ctx context.Context, path, content string) error {
	_, err := h.Exec(ctx, Spec{
		Args:  []string{"/bin/sh", "-c", `cat >"$1"`, "sh", path},
		Stdin: strings.NewReader(content),
	})
	return err
}

// ReadFile reads a file as the host sees it.
func (h *Host) ReadFile(ctx context.Context, path string) (string, error) {
	return h.Run(ctx, "cat", path)
}

// Resolver makes server the host's only resolver.
func (h *Host) Resolver(ctx context.Context, server string) error {
	return h.WriteFile(ctx, "/etc/resolv.conf", "nameserver "+server+"\n")
}

// environment is what a program in a host finds, before its own additions.
func environment(extra []string) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/run", "LC_ALL=C"}
	return append(env, extra...)
}

// Established waits until every kind is served. kubectl ends at once where one was
// made a moment ago and has no condition yet.
func Established(ctx context.Context, kubectl func(ctx context.Context, args ...string) (string, error)) error {
	return Until(ctx, 3*time.Minute, "the kinds to be served", func(ctx context.Context) error {
		_, err := kubectl(ctx, "wait", "--for=condition=Established", "--timeout=1m", "crd", "--all")
		return err
	})
}

// Until calls check again and again until it returns nil. The error after limit
// names what was waited for and why it had not come.
func Until(ctx context.Context, limit time.Duration, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var err error
	for {
		now := check(ctx)
		if now == nil {
			return nil
		}
		// What was wrong says more than that the last look at it was cut short.
		if err == nil || ctx.Err() == nil {
			err = now
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting %s for %s: %w", limit, what, err)
		case <-tick.C:
		}
	}
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// "pid (name) state ppid ...": the name may hold anything, so read from its last bracket.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			out = append(out, child)
		}
	}
	return out
}
