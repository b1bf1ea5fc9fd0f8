package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test binary is the command itself where this is set.
const asCommand = "OOOI_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Behaviour D10: only the plugins that it needs.
func TestPlugins(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-plugins") //nolint:gosec // ourselves
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := cmd.Output()
	require.NoError(t, err)
	// forward and cache import these two; no Corefile can name them.
	require.ElementsMatch(t, append([]string{"dnstap", "metadata"}, directives...), strings.Fields(string(out)))
}

// Exit codes: 0 good, 1 input that is refused, 2 a command that is none. What was
// asked for goes to stdout, what is wrong to stderr.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	file := func(text string) string {
		f, err := os.CreateTemp(dir, "*.json")
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		return f.Name()
	}
	for _, tc := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"help", []string{"--help"}, 0, "coredns check FILE", ""},
		{"help lists our flags, what they mean and their variables", []string{"-h"}, 0, "-state-dir DIR\n    \tDIR that keeps the stream's last snapshot ($OOOI_STATE_DIR)\n", ""},
		{"help about check", []string{"check", "--help"}, 0, "coredns check FILE", ""},
		{"the version", []string{"--version"}, 0, "contract agent.v1", ""},
		{"a good snapshot", []string{"check", "../../testdata/snapshot.json"}, 0, "13 names, version sha256:", ""},
		{"check without a file", []string{"check"}, 2, "", "check takes one FILE"},
		{"check with two files", []string{"check", "a", "b"}, 2, "", "check takes one FILE"},
		{"check with a flag", []string{"check", "--strict"}, 2, "", "check takes one FILE"},
		{"an unknown flag", []string{"--snapshots", "a"}, 2, "", "-snapshots"},
		{"a flag without its value", []string{"--snapshot"}, 2, "", "-snapshot"},
		{"an unknown command", []string{"serve"}, 2, "", `unknown argument "serve"`},
		{"a file that is not there", []string{"check", "none"}, 1, "", "none: no such file"},
		{"a directory", []string{"check", dir}, 1, "", dir + " is no regular file"},
		{"a pipe that nobody writes to", []string{"check", pipe}, 1, "", pipe + " is no regular file"},
		{"no JSON", []string{"check", file("cidr: 192.0.2.0/24")}, 1, "", "line 1:1"},
		{"a wrong type", []string{"check", file(`{"dns": {"cidr": 5}}`)}, 1, "", `"cidr": 5`},
		{"an unknown field", []string{"check", file(`{"dns": {"recrods": []}}`)}, 1, "", `unknown field "recrods"`},
		{"another component's snapshot", []string{"check", file(`{"dhcp": {}}`)}, 1, "", "holds no DNS configuration"},
		{"a value that is wrong", []string{"check", file(`{"dns": {"cidr": "192.0.2.5/24"}}`)}, 1, "", `cidr: "192.0.2.5/24" has host bits set`},
		{"a part that is wrong", []string{"check", file(`{"dns": {"cidr": "192.0.2.0/24", "serverIp": "192.0.2.3", "zones": ["-"]}}`)}, 1, `zones: "-"`, "not all of it can be served"},
		{"nothing to serve", nil, 1, "", "neither OOOI_SERVER_IP nor a snapshot"},
		{"a snapshot that cannot be served", []string{"--snapshot", pipe}, 1, "", "file is no regular file"},
		{"a fence that is neither", []string{"--snapshot", "../../testdata/snapshot.json", "--fence", "maybe"}, 1, "", "neither on nor off"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], tc.args...) //nolint:gosec // ourselves
			cmd.Env = append(os.Environ(), asCommand+"=1")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // judged by its exit code
			require.Equal(t, tc.code, cmd.ProcessState.ExitCode(), stderr.String())
			require.Contains(t, stdout.String(), tc.stdout)
			require.Contains(t, stderr.String(), tc.stderr)
			if tc.stderr == "" {
				require.Empty(t, stderr.String())
			}
		})
	}
}
