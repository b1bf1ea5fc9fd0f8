package lab_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// makerMode makes the test binary a maker that is killed: it builds a host,
// says the host's process id and waits for ever.
const makerMode = "OOOI_LAB_TEST_MAKER"

func TestMain(m *testing.M) {
	if os.Getenv(makerMode) == "" {
		os.Exit(m.Run())
	}
	l, err := lab.New()
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	h, err := l.Host("orphan")
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	if _, err := h.Start(lab.Spec{Args: []string{"sleep", "1000"}}); err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, h.PID())
	select {}
}

func TestTwoHostsOnABridgeReachEachOther(t *testing.T) {
	ctx := t.Context()
	l := lab.ForTest(t)
	sw, a, b := l.MustHost(t, "switch"), l.MustHost(t, "a"), l.MustHost(t, "b")
	require.NoError(t, sw.Bridge(ctx, "vlan"))
	require.NoError(t, a.Plug(ctx, sw, "vlan", lab.Link{
		Device: "eth0", MAC: "02:00:5e:10:00:01", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")},
	}))
	require.NoError(t, b.Plug(ctx, sw, "vlan", lab.Link{
		Device: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
	}))
	server, err := a.Start(lab.Spec{Args: []string{"busybox", "nc", "-ll", "-p", "80", "-e", "echo", "hello"}})
	require.NoError(t, err)
	require.NoError(t, lab.Until(ctx, time.Minute, "an answer", func(ctx context.Context) error {
		out, err := b.Run(ctx, "busybox", "nc", "-w", "5", "192.0.2.1", "80")
		if err == nil && out != "hello\n" {
			err = errors.New(out)
		}
		return err
	}))
	require.NoError(t, server.Stop(time.Minute))
}

func TestAHostHasItsOwnFilesAndName(t *testing.T) {
	ctx := t.Context()
	l := lab.ForTest(t)
	before, err := os.ReadFile("/etc/resolv.conf")
	require.NoError(t, err)
	h := l.MustHost(t, "worker-1")
	require.NoError(t, h.Resolver(ctx, "192.0.2.3"))
	for _, c := range []struct{ want, path string }{
		{"nameserver 192.0.2.3\n", "/etc/resolv.conf"},
		{"worker-1\n", "/proc/sys/kernel/hostname"},
	} {
		got, err := h.ReadFile(ctx, c.path)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	devices, err := h.Run(ctx, "ls", "/sys/class/net")
	require.NoError(t, err)
	require.Equal(t, []string{"lo"}, strings.Fields(devices), "the host's own devices only")
	after, err := os.ReadFile("/etc/resolv.conf")
	require.NoError(t, err)
	require.Equal(t, before, after, "the machine's resolver stays as it was")
}

func TestAnUnprivilegedProgramHasNoCapability(t *testing.T) {
	l := lab.ForTest(t)
	h := l.MustHost(t, "pod")
	status, err := h.Exec(t.Context(), lab.Spec{
		Args: []string{"cat", "/proc/self/status"}, Unprivileged: true, Capabilities: []string{"net_raw"},
	})
	require.NoError(t, err)
	require.Contains(t, status, "CapBnd:\t0000000000002000\n")
	if strings.Contains(status, "Uid:\t0\t") {
		require.Contains(t, status, "CapEff:\t0000000000002000\n", "the only user there is, within the bounding set")
		return
	}
	require.Contains(t, status, "CapEff:\t0000000000000000\n")
	require.Contains(t, status, "Uid:\t65532\t65532\t65532\t65532\n")
}

func TestAProcessIsSignalledAndStopped(t *testing.T) {
	ctx := t.Context()
	l := lab.ForTest(t)
	h := l.MustHost(t, "pod")
	p, err := h.Start(lab.Spec{Args: []string{"/bin/sh", "-c", `trap 'echo bye; exit 3' TERM; echo up; sleep 1000 >/dev/null 2>&1 & wait`}})
	require.NoError(t, err)
	require.NoError(t, lab.Until(ctx, time.Minute, "the program", func(context.Context) error {
		if !strings.Contains(p.Output(), "up") {
			return errors.New("not up")
		}
		return nil
	}))
	require.NoError(t, p.Running())
	require.NoError(t, p.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, p.Wait(time.Minute), &exit)
	require.Equal(t, 3, exit.ExitCode())
	require.Contains(t, p.Output(), "bye")
	require.ErrorContains(t, p.Running(), "exit status 3")
}

func TestNothingOutlivesAMakerThatIsKilled(t *testing.T) {
	lab.ForTest(t)
	self, err := os.Executable()
	require.NoError(t, err)
	maker := exec.CommandContext(t.Context(), self)
	maker.Env = append(os.Environ(), makerMode+"=1")
	out, err := maker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, maker.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err, line)
	require.NoError(t, syscall.Kill(pid, 0), "the host is there")
	require.NoError(t, maker.Process.Kill())
	_ = maker.Wait()
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the host's end", func(context.Context) error {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(state), ") Z ") {
			return fmt.Errorf("process %d is still there: %s", pid, state)
		}
		return nil
	}))
}
