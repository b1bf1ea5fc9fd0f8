// Package netns lets a test run in a network namespace of its own: the test
// binary starts itself again there. It needs no root: where there is none, a
// user namespace gives the rights.
package netns

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// marker tells the second process that it is the second.
const marker = "OOOI_TEST_NETNS"

// Enter returns true in the new namespace. In the first process it runs the
// test there, takes over its outcome, and returns false.
func Enter(t *testing.T) bool {
	t.Helper()
	return enter(t, syscall.CLONE_NEWNET)
}

// EnterWithMounts is Enter with a mount namespace too, for a test that makes
// further named namespaces.
func EnterWithMounts(t *testing.T) bool {
	t.Helper()
	return enter(t, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS)
}

func enter(t *testing.T, flags uintptr) bool {
	t.Helper()
	if os.Getenv(marker) == t.Name() {
		Run(t, "ip", "link", "set", "lo", "up")
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=120s")
	cmd.Env = append(os.Environ(), marker+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in the namespace: %v\n%s", err, out)
	}
	return false
}

// Run runs a command, which must succeed.
func Run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}
