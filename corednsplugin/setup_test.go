package oooi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coredns/caddy"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, in, wantErr string
		check             func(*testing.T, options)
	}{
		{"nothing at all", "oooi", "", func(t *testing.T, o options) {
			require.Equal(t, "/etc/resolv.conf", o.resolvConf)
			require.True(t, o.fence)
			require.False(t, o.bind)
		}},
		{"every property", `oooi {
			snapshot a.json
			hub hub:8443
			hub_ca ca.crt
			token tok
			child ns/dns
			kubeconfig kc
			state_dir /state
			resolv /r
			vlan 192.0.2.3
			pod 10.128.0.5
			fence off
			bind_devices
			announce
			fallthrough
		}`, "", func(t *testing.T, o options) {
			require.Equal(t, []string{"a.json", "hub:8443", "ca.crt", "tok", "ns", "dns", "kc", "/state", "/r", "192.0.2.3", "10.128.0.5"},
				[]string{o.snapshot, o.hub, o.hubCA, o.token, o.namespace, o.name, o.kubeconfig, o.stateDir, o.resolvConf, o.vlan.String(), o.pod.String()})
			require.False(t, o.fence)
			require.True(t, o.bind && o.announce && o.fallthru)
		}},
		{"an empty argument is not given", "oooi {\n snapshot \"\"\n vlan \"\"\n resolv \"\"\n}", "", func(t *testing.T, o options) {
			require.Empty(t, o.snapshot)
			require.False(t, o.vlan.IsValid())
			require.Equal(t, "/etc/resolv.conf", o.resolvConf)
		}},
		{"an argument to the directive", "oooi example.org", "Wrong argument count", nil},
		{"the directive twice", "oooi\noooi", "once", nil},
		{"an unknown property", "oooi {\n zone x\n}", "unknown property 'zone'", nil},
		{"two arguments", "oooi {\n snapshot a b\n}", "Wrong argument count", nil},
		{"an argument to a switch", "oooi {\n announce yes\n}", "Wrong argument count", nil},
		{"a child without a namespace", "oooi {\n child dns\n}", "want NAMESPACE/NAME", nil},
		{"a child with too much", "oooi {\n child a/b/c\n}", "want NAMESPACE/NAME", nil},
		{"a fence that is neither", "oooi {\n fence maybe\n}", `fence: invalid value "maybe": want on or off`, nil},
		{"a hub without a port", "oooi {\n hub foo\n}", `hub: invalid value "foo": want HOST:PORT`, nil},
		{"a hub without a child", "oooi {\n hub hub:8443\n hub_ca c\n token t\n}", "hub needs child", nil},
		{"a hub without a CA", "oooi {\n hub hub:8443\n child a/b\n token t\n}", "hub needs hub_ca", nil},
		{"a hub without a token", "oooi {\n hub hub:8443\n child a/b\n hub_ca c\n}", "hub needs token", nil},
		{"an address that is none", "oooi {\n vlan eth0\n}", `vlan: invalid value "eth0": want an IP address`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, err := parse(caddy.NewTestController("dns", tc.in))
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			tc.check(t, o)
		})
	}
}

// Hazard 103: without addresses the view could not be told by the socket.
func TestSocketsNeedAddresses(t *testing.T) {
	require.ErrorContains(t, setup(caddy.NewTestController("dns", "oooi")), "bind")
	for _, hosts := range [][]string{{""}, {"0.0.0.0"}, {"::"}, {"192.0.2.3", ""}} {
		require.Error(t, checkListeners(hosts))
	}
	require.NoError(t, checkListeners([]string{"192.0.2.3", "::1"}))
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{"OOOI_SNAPSHOT": "testdata/snapshot.json"}
	get := func(k string) string { return env[k] }
	set := func(k, v string) error { env[k] = v; return nil }
	require.NoError(t, Environment(get, set))
	require.Equal(t, map[string]string{
		"OOOI_SNAPSHOT": "testdata/snapshot.json", "OOOI_SERVER_IP": "192.0.2.3",
		"POD_IP": "127.0.0.1", "OOOI_DNS_PORT": "53",
	}, env)

	env = map[string]string{"OOOI_SERVER_IP": "192.0.2.9", "POD_IP": "10.0.0.1", "OOOI_DNS_PORT": "5353"}
	require.NoError(t, Environment(get, set))
	require.Equal(t, "192.0.2.9", env["OOOI_SERVER_IP"], "what is set stays")
	require.Equal(t, "10.0.0.1", env["POD_IP"])

	env = map[string]string{}
	require.ErrorIs(t, Environment(get, set), errServerIP)
	env = map[string]string{"OOOI_SNAPSHOT": "testdata/none"}
	require.ErrorIs(t, Environment(get, set), errServerIP)

	// A mounted file that is broken, beside a good copy of the stream's last.
	dir := t.TempDir()
	data, err := os.ReadFile("testdata/snapshot.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "coredns-snapshot.json.gz"), data, 0o600))
	env = map[string]string{"OOOI_SNAPSHOT": "testdata/none", "OOOI_STATE_DIR": dir}
	require.NoError(t, Environment(get, set))
	require.Equal(t, "192.0.2.3", env["OOOI_SERVER_IP"])
}
