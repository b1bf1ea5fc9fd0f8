package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// initScript is a box's pid 1. bash reaps what is orphaned.
const initScript = `trap "exit 0" TERM INT; while :; do sleep 3600 & wait $!; done`

// Box is a set of namespaces with an init.
type Box struct {
	Name string `json:"name"`
	// Netns is the name of the network namespace below /run/netns.
	Netns string `json:"netns"`
	// Unshare is the process that holds the init, seen from outside.
	Unshare int `json:"unshare"`
	// Init is the box's pid 1, seen from outside.
	Init int `json:"init"`
	// Logs is where the output of daemons goes.
	Logs string `json:"logs"`

	mu      sync.Mutex
	daemons map[string]int // guarded by mu: the nsenter of each, by name
}

// startBox starts an init in new namespaces and in the network namespace
// netns, which exists.
func startBox(ctx context.Context, name, netns, logs string) (*Box, error) {
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, fmt.Errorf("making the log directory of box %s: %w", name, err)
	}
	// Not "ip netns exec": that one mounts /sys afresh and so hides the cgroups.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "nsenter", "--net=/run/netns/"+netns,
		"unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child=SIGKILL", "--mount-proc",
		"bash", "-c", initScript, netns)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the init of box %s: %w", name, err)
	}
	go func() { _ = cmd.Wait() }() // reaps; how it ended is of no interest
	box := &Box{Name: name, Netns: netns, Unshare: cmd.Process.Pid, Logs: logs}
	err := Wait(ctx, patience, "the init of box "+name, func(context.Context) error {
		pid, err := childOf(box.Unshare)
		if err != nil {
			return err
		}
		box.Init = pid
		return box.Run(ctx, "test", "-e", "/proc/1/comm")
	})
	return box, err
}

func childOf(pid int) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, fmt.Errorf("reading the children of process %d: %w", pid, err)
	}
	fields := strings.Fields(string(raw))
	if len(fields) == 0 {
		return 0, fmt.Errorf("process %d has no child yet", pid)
	}
	return strconv.Atoi(fields[0])
}

// Command is a command that will run inside the box, until ctx ends.
func (b *Box) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	enter := []string{"-t", strconv.Itoa(b.Init), "--net", "--mount", "--pid", "--ipc", "--uts", "--", name}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	// nsenter forks into the pid namespace: what has its output is its child.
	cmd.Cancel = func() error {
		if pid, err := childOf(cmd.Process.Pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return cmd.Process.Kill()
	}
	cmd.WaitDelay = time.Second
	return cmd
}

// Run runs a command inside the box and returns its output as error if it
// fails.
func (b *Box) Run(ctx context.Context, name string, args ...string) error {
	_, err := b.Output(ctx, name, args...)
	return err
}

// Output runs a command inside the box and returns what it wrote to stdout.
func (b *Box) Output(ctx context.Context, name string, args ...string) (string, error) {
	return output(b.Command(ctx, name, args...))
}

// Script runs a bash script inside the box; env are "NAME=value" pairs.
func (b *Box) Script(ctx context.Context, script string, env ...string) (string, error) {
	cmd := b.Command(ctx, "bash", "-eu", "-o", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), env...)
	return output(cmd)
}

// Daemon starts a process that lives as long as the box, or until ctx ends if
// the returned stop is called. Its output goes to Logs/NAME.log.
func (b *Box) Daemon(name string, argv ...string) (stop func(), err error) {
	log, err := os.OpenFile(filepath.Join(b.Logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	cmd := b.Command(context.Background(), argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.daemons == nil {
		b.daemons = map[string]int{}
	}
	b.daemons[name] = cmd.Process.Pid
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	return func() { end(cmd.Process.Pid, done) }, nil
}

// Pause stops a daemon as SIGSTOP does, or has it go on. Its nsenter stops with it,
// and whoever goes on alone can never be waited for.
func (b *Box) Pause(name string, paused bool) error {
	b.mu.Lock()
	nsenter, found := b.daemons[name]
	b.mu.Unlock()
	if !found {
		return fmt.Errorf("box %s has no daemon %s", b.Name, name)
	}
	pid, err := childOf(nsenter)
	if err != nil {
		return err
	}
	if paused {
		return syscall.Kill(pid, syscall.SIGSTOP)
	}
	return errors.Join(syscall.Kill(nsenter, syscall.SIGCONT), syscall.Kill(pid, syscall.SIGCONT))
}

// end kills the daemon that an nsenter has started, and waits for the end of both.
// nsenter forks into the pid namespace: the daemon is its child, which may not be
// there yet.
func end(nsenter int, done <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done: // its number may be another process's by now
			return
		default:
		}
		if pid, err := childOf(nsenter); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// Kill ends the box at once: its init and with it all that runs in it.
func (b *Box) Kill(ctx context.Context) error {
	if b.alive() {
		if err := syscall.Kill(b.Init, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending box %s: %w", b.Name, err)
		}
	}
	return Wait(ctx, patience, "the end of box "+b.Name, func(context.Context) error {
		if b.alive() {
			return fmt.Errorf("process %d is still there", b.Unshare)
		}
		return nil
	})
}

// alive tells whether the box's own process is there, and not another one that
// got its number.
func (b *Box) alive() bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.Unshare))
	return err == nil && bytes.Contains(raw, []byte("\x00"+b.Netns+"\x00"))
}

func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running %s: %w: %s", strings.Join(cmd.Args, " "), err,
			strings.TrimSpace(stderr.String()+stdout.String()))
	}
	return stdout.String(), nil
}
