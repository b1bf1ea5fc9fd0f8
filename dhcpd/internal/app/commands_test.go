package app

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/journal"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

func TestCheckNamesTheFieldAndWhatIsWrongWithIt(t *testing.T) {
	const good = `"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "serverIp": "192.0.2.2", "leaseSeconds": 60, "range": {"start": "192.0.2.100", "end": "192.0.2.199"}`
	for _, c := range []struct {
		name, in string
		code     int
		want     []string
	}{
		{"a good snapshot", `{"version": "v1", "dhcp": {` + good + `}}`, 0, []string{"v1: server 192.0.2.2 on 192.0.2.0/24, 100 addresses\n"}},
		{"a part that is left out", snapshotJSON, 1, []string{"v1: server", "InvalidOption: option 54 is decided by the server"}},
		{"no JSON", `{`, 1, []string{"unexpected"}},
		{"another component's", `{"dns": {}}`, 1, []string{"no DHCP configuration"}},
		{"a network that is none", `{"dhcp": {"cidr": "x"}}`, 1, []string{`cidr "x"`}},
		{"a number where a text belongs", `{"dhcp": {"cidr": 5}}`, 1, []string{"dhcp.cidr", "5", "string"}},
		{"a text where a number belongs", "{\"dhcp\": {" + good + ",\n \"mtu\": \"big\"}}", 1, []string{"dhcp.mtu", "big"}},
		{"a text where an object belongs", `{"dhcp": {"range": "all"}}`, 1, []string{"dhcp.range", "all"}},
		{"a text where a list belongs", `{"dhcp": {"relays": "192.0.2.9"}}`, 1, []string{"dhcp.relays", "192.0.2.9"}},
		{"an element of the wrong kind", `{"dhcp": {"relays": ["192.0.2.9", [7]]}}`, 1, []string{"dhcp.relays[1]"}},
		{"a member of an element", `{"dhcp": {"options": [{"code": 42}, {"code": "x"}]}}`, 1, []string{"dhcp.options[1].code", "x"}},
		{"an unknown field", `{"dhcp": {` + good + `, "gatway": "192.0.2.1"}}`, 1, []string{"dhcp.gatway", "unknown field"}},
		{"an unknown choice", `{"dhcp": {"unknownClients": "MAYBE"}}`, 1, []string{"dhcp.unknownClients", "MAYBE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "s.json")
			require.NoError(t, os.WriteFile(file, []byte(c.in), 0o600))
			var out bytes.Buffer
			require.Equal(t, c.code, Check([]string{file}, &out, &out), out.String())
			for _, w := range c.want {
				require.Contains(t, out.String(), w)
			}
		})
	}
}

func TestCheckReadsRegularFilesAlone(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for _, c := range []struct{ path, want string }{
		{dir, "no regular file"}, {pipe, "no regular file"}, {"/dev/zero", "no regular file"}, {filepath.Join(dir, "absent"), "no such file"},
	} {
		var errs bytes.Buffer
		require.Equal(t, refused, Check([]string{c.path}, io.Discard, &errs))
		require.Contains(t, errs.String(), c.path)
		require.Contains(t, errs.String(), c.want)
	}
}

func TestHelpIsAnAnswerAndAMistakeIsNot(t *testing.T) {
	commands := map[string]func(args []string, out, errs io.Writer) int{
		"check": Check,
		"leases": func(args []string, out, errs io.Writer) int {
			return Leases(args, env(nil), out, errs)
		},
		"serve": func(args []string, out, errs io.Writer) int {
			_, code := ParseOptions(args, env(nil), out, errs)
			return code
		},
	}
	for name, run := range commands {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, good, run([]string{"--help"}, &out, &errs))
			require.Contains(t, out.String(), "usage: dhcpd "+name)
			require.Empty(t, errs.String())
			out.Reset()
			require.Equal(t, misused, run([]string{"--nope"}, &out, &errs))
			require.Empty(t, out.String())
			require.Contains(t, errs.String(), "-nope")
		})
	}
	require.Equal(t, misused, Check(nil, io.Discard, io.Discard))
	require.Equal(t, misused, Check([]string{"a", "b"}, io.Discard, io.Discard))
}

func TestLeasesListsTheJournal(t *testing.T) {
	dir := t.TempDir()
	list := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := Leases(args, env(map[string]string{"OOOI_STATE_DIR": dir}), &out, &errs)
		return code, out.String() + errs.String()
	}
	code, out := list()
	require.Equal(t, 1, code)
	require.Contains(t, out, "holds no lease journal")
	j, _ := journal.Open(dir)
	ip := netip.MustParseAddr("192.0.2.101")
	require.NoError(t, j.Compact([]lease.Record{
		{IP: ip, State: lease.Free},
		{IP: ip, State: lease.Bound, MAC: mac(1), VM: lease.VM{Namespace: "ns", Name: "vm"}, Until: start},
		{IP: ip.Next(), State: lease.Quarantined, Until: start},
	}))
	code, out = list()
	require.Zero(t, code)
	require.Equal(t, "IP           STATE     MAC                UNTIL                 VM\n"+
		"192.0.2.101  bound     02:00:00:00:00:01  2026-01-01T12:00:00Z  ns/vm\n"+
		"192.0.2.102  declined                     2026-01-01T12:00:00Z  \n", out)
	code, out = list("--output", "json")
	require.Zero(t, code)
	require.Contains(t, out, `"vm": "ns/vm"`)
	for _, bad := range [][]string{{"--output", "xml"}, {"more"}, {"--nope"}} {
		code, _ = list(bad...)
		require.Equal(t, misused, code)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "leases.journal"), []byte("junk"), 0o600))
	code, out = list()
	require.Zero(t, code)
	require.Contains(t, out, "damaged")
}
