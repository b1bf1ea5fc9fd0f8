package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/testenv"
)

// apart is an operator in a process of its own.
type apart struct {
	process         *exec.Cmd
	health, metrics string
	ended           chan struct{} // closed when the process has ended, with err
	err             error
}

// freePorts are two addresses that nobody listens on now.
func freePorts(t *testing.T) (a, b string) {
	t.Helper()
	// Both are held, or they might be one.
	var l [2]net.Listener
	for i := range l {
		var err error
		l[i], err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(l[0].Close(), l[1].Close()))
	return l[0].Addr().String(), l[1].Addr().String()
}

// startApart starts an operator of a control plane, with its ServiceAccount's rights
// and where its pod would say its namespace.
func startApart(t *testing.T, e *testenv.Env, environ []string, args ...string) *apart {
	t.Helper()
	config, err := e.As(t.Context(), testenv.Namespace, testenv.ServiceAccount)
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, testenv.WriteKubeconfig(kubeconfig, config))
	self, err := os.Executable()
	require.NoError(t, err)
	health, metrics := freePorts(t)
	a := &apart{health: health, metrics: metrics, process: exec.CommandContext(t.Context(), self), ended: make(chan struct{})}
	a.process.Stdout, a.process.Stderr = t.Output(), t.Output()
	a.process.Env = append(append(os.Environ(), environ...), podArgs+"="+strings.Join(append([]string{
		"--kubeconfig=" + kubeconfig, "--hub-bind-address=127.0.0.1:0", "--metrics-bind-address=" + a.metrics, "--metrics-secure=false",
		"--health-probe-bind-address=" + a.health, "--log-level=error",
	}, args...), " "))
	a.process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		a.process.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		a.process.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		a.process.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	require.NoError(t, a.process.Start())
	go func() {
		a.err = a.process.Wait()
		close(a.ended)
	}()
	t.Cleanup(a.kill)
	return a
}

// kill ends the process in the middle of whatever it does.
func (a *apart) kill() {
	_ = a.process.Process.Kill()
	<-a.ended
}

// stop tells the process to end, and requires that it does so well.
func (a *apart) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, a.process.Process.Signal(os.Interrupt))
	select {
	case <-a.ended:
		require.NoError(t, a.err)
	case <-time.After(patience):
		require.FailNow(t, "the operator does not stop")
	}
}

// ask gives the answer on a path of the probes or the metrics.
func ask(ctx context.Context, address, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return string(text), err
}

// answersProbes asks for both probes.
func (a *apart) answersProbes(ctx context.Context) error {
	for _, path := range []string{"/healthz", "/readyz"} {
		if _, err := ask(ctx, a.health, path); err != nil {
			return err
		}
	}
	return nil
}

// isReady waits until the probes are answered well.
func (a *apart) isReady(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, patience, func() error { return a.answersProbes(t.Context()) })
}

// staysReady asks for the probes again and again. What it gives ends that, and says
// what went wrong first.
func (a *apart) staysReady(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	first := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			err := a.answersProbes(ctx)
			if ctx.Err() != nil {
				first <- nil
				return
			}
			if err != nil {
				first <- err
				return
			}
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	}()
	return func() error {
		cancel()
		return <-first
	}
}

// memory is a value of the process's status in bytes: VmRSS now, VmHWM at its height.
func (a *apart) memory(t *testing.T, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.process.Process.Pid))
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		if value, found := bytes.CutPrefix(line, []byte(field+":")); found {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))), 10, 64)
			require.NoError(t, err)
			return n << 10
		}
	}
	require.FailNow(t, "the process's status has no "+field)
	return 0
}

// missing waits until the metrics say that a kind is missing.
func (a *apart) missing(t *testing.T, kind string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		text, err := ask(t.Context(), a.metrics, "/metrics")
		if err == nil && !strings.Contains(text, `oooi_operator_kind_missing{kind="`+kind+`"} 1`) {
			err = errors.New(kind + " is not reported as missing")
		}
		return err
	})
}
