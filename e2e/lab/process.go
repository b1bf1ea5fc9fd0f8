package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// PodUID is the user that the product's containers run as.
const PodUID = "65532"

// Spec is a program to run in a host.
type Spec struct {
	// Args is the program and its arguments. Relative paths start at /.
	Args []string
	// Env is added to a small environment of the host's own.
	Env []string
	// Stdin may be nil.
	Stdin io.Reader
	// Unprivileged runs the program as the product's containers run: uid 65532,
	// no group, no capability that Capabilities does not name.
	Unprivileged bool
	// UID is another user for an unprivileged program; an init container that
	// needs a capability runs as "0".
	UID string
	// Capabilities stay in the bounding set of an unprivileged program, as a
	// pod's securityContext would add them: a program gets one of them only by
	// a capability on its file. Names as setpriv(1) has them, such as "net_raw".
	Capabilities []string
	// Log receives stdout and stderr of a started process as they come; nil
	// keeps them for Process.Output alone.
	Log io.Writer

	netOnly bool
}

// Run runs a program to its end and returns its stdout. The error carries its stderr.
func (h *Host) Run(ctx context.Context, args ...string) (string, error) {
	return h.Exec(ctx, Spec{Args: args})
}

// Exec is Run with all that a Spec says.
func (h *Host) Exec(ctx context.Context, spec Spec) (string, error) {
	cmd := h.command(ctx, spec)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stderr.String())
		if said == "" {
			said = strings.TrimSpace(stdout.String())
		}
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(spec.Args, " "), err, said)
	}
	return stdout.String(), nil
}

// Process is a program that runs in a host in the background.
type Process struct {
	cmd  *exec.Cmd
	out  *buffer
	done chan struct{}
	err  error // valid once done is closed
}

// Start starts a program in the host. It ends with the host at the latest.
func (h *Host) Start(spec Spec) (*Process, error) {
	p := &Process{cmd: h.command(context.Background(), spec), out: &buffer{tee: spec.Log}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s in %s: %w", spec.Args[0], h.Name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running says whether the program runs; if not, the error holds how it ended
// and the last that it said.
func (p *Process) Running() error {
	select {
	case <-p.done:
		return fmt.Errorf("ended (%w): %s", errOr(p.err, "exit status 0"), tail(p.Output()))
	default:
		return nil
	}
}

// Output is all that the program has said so far.
func (p *Process) Output() string { return p.out.String() }

// Signal sends a signal to the program.
func (p *Process) Signal(sig syscall.Signal) error {
	pid, err := p.PID()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}

// PID is the program's process id as the maker of the lab sees it. nsenter
// forks to enter a process namespace, so the program is its child.
func (p *Process) PID() (int, error) {
	for {
		if pids := childrenOf(p.cmd.Process.Pid); len(pids) == 1 {
			return pids[0], nil
		}
		select {
		case <-p.done:
			return 0, fmt.Errorf("no such process any more: %w", errOr(p.err, "exit status 0"))
		case <-time.After(time.Millisecond):
		}
	}
}

// Wait waits for the program's end, for limit at most.
func (p *Process) Wait(limit time.Duration) error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		return fmt.Errorf("still running after %s: %s", limit, tail(p.Output()))
	}
}

// Stop asks the program to end by SIGTERM and kills it when it has not after limit.
func (p *Process) Stop(limit time.Duration) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil && p.Running() == nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("still running %s after SIGTERM: %s", limit, tail(p.Output())), p.Kill())
	}
}

// Kill ends the program by SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil && p.Running() == nil {
		return err
	}
	<-p.done
	return nil
}

func (h *Host) command(ctx context.Context, spec Spec) *exec.Cmd {
	args := []string{h.target(), "--net"}
	if !spec.netOnly {
		args = append(args, "--mount", "--uts", "--ipc", "--pid")
	}
	args = append(args, "--")
	args = append(args, privileges(spec)...)
	cmd := exec.CommandContext(ctx, "nsenter", append(args, spec.Args...)...)
	cmd.Dir = "/"
	cmd.Env = environment(spec.Env)
	cmd.Stdin = spec.Stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	cmd.Cancel = func() error {
		for _, pid := range childrenOf(cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return cmd.Process.Kill()
	}
	return cmd
}

func privileges(spec Spec) []string {
	if !spec.Unprivileged {
		return nil
	}
	bounds := []string{"-all"}
	for _, c := range spec.Capabilities {
		bounds = append(bounds, "+"+c)
	}
	out := []string{"setpriv", "--inh-caps=-all", "--bounding-set=" + strings.Join(bounds, ",")}
	uid := spec.UID
	if uid == "" {
		uid = PodUID
	}
	if uid != "0" && PodUserExists() {
		out = append(out, "--reuid="+uid, "--regid="+uid, "--clear-groups")
	}
	return append(out, "--")
}

// PodUserExists says whether this user namespace has the containers' user. In
// one that maps a single user it has not; programs then are that user, without
// any capability beyond the bounding set.
var PodUserExists = sync.OnceValue(func() bool {
	content, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	var inside, outside, count uint32
	for line := range strings.Lines(string(content)) {
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			return false
		}
		if inside <= 65532 && 65532-inside < count {
			return true
		}
	}
	return false
})

func errOr(err error, word string) error {
	if err == nil {
		return errors.New(word)
	}
	return err
}

// tail keeps the last of a program's words, enough for an error.
func tail(s string) string {
	const most = 2000
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = "..." + s[len(s)-most:]
	}
	return s
}

// buffer is what a process has said.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
	tee io.Writer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tee != nil {
		if _, err := b.tee.Write(p); err != nil {
			return 0, err
		}
	}
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
