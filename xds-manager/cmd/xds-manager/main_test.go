package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/xds-manager/internal/agent"
)

const good = "../../internal/translate/testdata/two-attachments/in.json"

// file writes a snapshot.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.json")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestTheExitStatusSaysWhoseFaultItIs(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	// What bootstrap does not use it does not offer.
	var boot bytes.Buffer
	require.Equal(t, 0, run([]string{"bootstrap", "--help"}, &boot, &boot))
	require.Contains(t, boot.String(), "-xds-socket")
	require.NotContains(t, boot.String(), "-snapshot")
	cases := []struct {
		name           string
		args           []string
		status         int
		stdout, stderr string
	}{
		{"a good snapshot", []string{"check", good}, 0, "0 problems", ""},
		{"a snapshot with problems", []string{"check", "../../internal/translate/testdata/bad-backends/in.json"}, 1, "InvalidBackend", ""},
		{"no snapshot", []string{"check", "absent"}, 1, "", "absent"},
		{"a directory", []string{"check", dir}, 1, "", dir + " is no regular file"},
		{"a pipe that nobody writes to", []string{"check", pipe}, 1, "", pipe + " is no regular file"},
		{"a pipe to explain", []string{"routes", "--snapshot", pipe}, 1, "", "no regular file"},
		{"another component's snapshot", []string{"check", file(t, `{"dns":{}}`)}, 1, "", "no proxy configuration"},
		{"a wrong type", []string{"check", file(t, `{"proxy":{"serverIp":5}}`)}, 1, "", "proxy.serverIp: invalid value for string field serverIp: 5"},
		{"a field that nobody knows", []string{"check", file(t, `{"proxy":{"backends":[{},{"prot":1}]}}`)}, 1, "", `proxy.backends[1].prot: unknown field "prot"`},
		{"a connection that is closed", []string{"routes", "--snapshot", good, "--port", "443", "--sni", "x", "--source", "192.0.2.9"}, 1, "no backend", ""},
		{"a connection that is not", []string{"routes", "--snapshot", good, "--port", "6443", "--source", "192.0.2.101"}, 0, "backend example-hcp-a/alias-api", ""},
		{"a stats address that no device has", []string{"bootstrap", "--out", filepath.Join(dir, "b"), "--pod-ip", "203.0.113.7"}, 1, "", "203.0.113.7"},
		{"a fault names its file", []string{"check", file(t, `{"proxy":{"backends":[{},{"prot":1}]}}`)}, 1, "", "s.json: parsing snapshot: proxy"},
		{"resources alone on standard output", []string{"check", "--print", good}, 0, `{"name":`, "3 listeners (and 4 of the pod side with --pod-ip), 0 problems"},
		{"both sides", []string{"check", "--pod-ip", "10.128.0.9", good}, 0, "7 listeners, 0 problems", ""},
		{"a name and no port", []string{"routes", "--snapshot", good, "--sni", "foo"}, 2, "", "routes: --sni is of one connection and needs --port (see --help)"},
		{"no file to check", []string{"check"}, 2, "", "check: want one FILE, got 0 arguments (see --help)"},
		{"a flag that is none", []string{"check", "--nope", good}, 2, "", "-nope"},
		{"an address of the pod side that is none", []string{"check", "--pod-ip", "2001:db8::1", good}, 2, "", `invalid value "2001:db8::1" for flag -pod-ip: want the IPv4 address`},
		{"a hub without a port", []string{"serve", "--hub", "foo"}, 2, "", `invalid value "foo" for flag -hub: want HOST:PORT`},
		{"a source that is no address", []string{"routes", "--snapshot", good, "--port", "443", "--source", "x"}, 2, "", `"x" is no address`},
		{"a port that is none", []string{"routes", "--snapshot", good, "--port", "70000", "--source", "192.0.2.9"}, 2, "", "70000"},
		{"nothing to serve", []string{"serve"}, 2, "", "give --snapshot or --hub"},
		{"an address too many", []string{"bootstrap", "--out", filepath.Join(dir, "b"), "x"}, 2, "", `unknown argument "x"`},
		{"no command", nil, 2, "", "usage: xds-manager COMMAND"},
		{"a command that is none", []string{"chek"}, 2, "", `unknown command "chek"`},
		{"help", []string{"--help"}, 0, "check      validate", ""},
		{"help names the other one too", []string{"help"}, 0, "routes     explain", ""},
		{"help of serve", []string{"serve", "--help"}, 0, "-drain-wait", ""},
		{"help of bootstrap", []string{"bootstrap", "-h"}, 0, "-out", ""},
		{"help of check", []string{"check", "--help"}, 0, "usage: xds-manager check", ""},
		{"help of routes", []string{"routes", "--help"}, 0, "-sni", ""},
		{"the version", []string{"--version"}, 0, "xds-manager " + version + " contract " + agent.Contract + "\n", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.status, run(c.args, &stdout, &stderr), stderr.String())
			require.Contains(t, stdout.String(), c.stdout)
			require.Contains(t, stderr.String(), c.stderr)
			require.Equal(t, c.stderr == "", stderr.Len() == 0, stderr.String())
		})
	}
}
