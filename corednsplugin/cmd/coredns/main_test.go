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

	oooi "github.com/densityops/oooi/corednsplugin"
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
		{"the version", []string{"--version"}, 0, "coredns " + oooi.Version + " contract " + oooi.Contract + " CoreDNS ", ""},
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
		{
			"an upstream that is the server itself",
			[]string{"check", file(`{"dns": {"cidr": "192.0.2.0/24", "serverIp": "192.0.2.3", "upstreams": ["192.0.2.3", "203.0.113.53"]}}`)},
			1,
			"UpstreamIsSelf: upstream 192.0.2.3:53 is this DNS server itself or loopback and is not used\n", "not all of it can be served",
		},
		{"no upstream but the server itself", []string{"check", file(`{"dns": {"cidr": "192.0.2.0/24", "serverIp": "192.0.2.3", "upstreams": ["192.0.2.3"]}}`)}, 1, "NoUpstreams: none of the upstreams", "not all"},
		{"the node's upstreams are known on the node", []string{"check", file(`{"dns": {"cidr": "192.0.2.0/24", "serverIp": "192.0.2.3", "upstreams": ["resolv.conf"]}}`)}, 0, "0 names", ""},
		{"nothing to serve", nil, 2, "", "nothing to serve: give --snapshot or --hub"},
		{"a snapshot that names no address", []string{"--snapshot", file(`{"dns": {}}`)}, 1, "", "neither OOOI_SERVER_IP nor a snapshot"},
		{"a snapshot that cannot be served", []string{"--snapshot", pipe}, 1, "", "file is no regular file"},
		{"a fence that is neither", []string{"--snapshot", "../../testdata/snapshot.json", "--fence", "maybe"}, 2, "", `invalid value "maybe" for flag -fence: want on or off`},
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

// What cannot be right is refused before anything starts, in one line.
func TestACommandLineThatCannotBeRight(t *testing.T) {
	served := func(args ...string) []string {
		return append([]string{"--snapshot", "../../testdata/snapshot.json"}, args...)
	}
	hubbed := func(args ...string) []string {
		return append(served("--hub", "hub:8443", "--hub-ca", "ca", "--token", "t", "--child", "ns/n"), args...)
	}
	for _, c := range []struct {
		name, env string
		args      []string
		want      string
	}{
		{"nothing to serve", "", nil, "nothing to serve: give --snapshot or --hub"},
		{"a hub that nothing names the address beside", "", []string{"--hub", "hub:8443", "--hub-ca", "ca", "--token", "t", "--child", "ns/n"}, "--hub needs --server-ip"},
		{"a hub without a resource", "", hubbed("--child", ""), "--hub needs --child"},
		{"a hub without a CA", "", hubbed("--hub-ca", ""), "--hub needs --hub-ca"},
		{"a hub without a token", "", hubbed("--token", ""), "--hub needs --token"},
		{"a hub without a port", "", hubbed("--hub", "foo"), `invalid value "foo" for flag -hub: want HOST:PORT`},
		{"a hub's variable without a port", "OOOI_HUB=foo", served(), `invalid value "foo" for $OOOI_HUB: want HOST:PORT`},
		{"a hub that is a colon", "", hubbed("--hub", ":"), `invalid value ":" for flag -hub`},
		{"a hub with a scheme", "", hubbed("--hub", "https://hub:8443"), "for flag -hub"},
		{"a hub on port 0", "", hubbed("--hub", "hub:0"), "for flag -hub"},
		{"a hub at an address that is none", "", hubbed("--hub", "192.0.2.300:8443"), "for flag -hub"},
		{"a resource without a namespace", "", served("--child", "n"), `invalid value "n" for flag -child: want NAMESPACE/NAME`},
		{"a resource with too much", "OOOI_CHILD=a/b/c", served(), `invalid value "a/b/c" for $OOOI_CHILD`},
		{"a server's address that is none", "", served("--server-ip", "x"), `invalid value "x" for flag -server-ip: want the IPv4 address`},
		{"a server's address of IPv6", "OOOI_SERVER_IP=2001:db8::1", served(), "for $OOOI_SERVER_IP"},
		{"a pod's address that is none", "", served("--pod-ip", "x"), "for flag -pod-ip: want the IPv4 address"},
		{"a pod's address that is nobody's", "POD_IP=0.0.0.0", served(), "for $POD_IP"},
		{"a fence that is true", "OOOI_FENCE=true", served(), `invalid value "true" for $OOOI_FENCE: want on or off`},
		{"a port that is none", "OOOI_DNS_PORT=70000", served(), `invalid value "70000" for $OOOI_DNS_PORT: want a port`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], c.args...) //nolint:gosec // ourselves
			cmd.Env = append(os.Environ(), asCommand+"=1", c.env)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // judged by its exit code
			require.Equal(t, 2, cmd.ProcessState.ExitCode(), stderr.String())
			require.Empty(t, stdout.String())
			require.Contains(t, stderr.String(), c.want)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line")
		})
	}
}
