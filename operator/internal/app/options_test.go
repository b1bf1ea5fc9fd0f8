package app_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/app"
	"github.com/densityops/oooi/operator/internal/controller/workload"
	"github.com/densityops/oooi/operator/internal/render"
)

func TestAFlagBeatsTheEnvironment(t *testing.T) {
	env := map[string]string{
		"OOOI_FENCE": "off", "OOOI_SCC": "minimal", "OOOI_ENABLE_OPENSHIFT": "true", "POD_NAMESPACE": "here", "RELATED_IMAGE_DHCPD": "example.com/d@sha256:1",
	}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	o, err := app.ParseOptions([]string{"--fence=on"}, lookup, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, workload.FenceOn, o.Fence)
	require.Equal(t, render.SCCMinimal, o.SCC)
	require.True(t, o.OpenShift)
	require.Equal(t, "oooi-hub.here.svc:8443", o.HubAddress)
	require.Equal(t, "example.com/d@sha256:1", o.Images.DHCPD)
	require.Equal(t, app.LeaderLease, o.LeaderElect)
}

func TestWrongOptionsAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, arg, env, value, want string
	}{
		{"an unknown SCC", "--scc=root", "", "", `invalid value "root" for flag -scc: want reference or minimal`},
		{"an unknown SCC by variable", "", "OOOI_SCC", "root", `invalid value "root" for $OOOI_SCC: want reference or minimal`},
		{"an unknown fence", "--fence=maybe", "", "", `invalid value "maybe" for flag -fence: want auto, on or off`},
		{"an unknown leader", "--leader-elect=true", "", "", "for flag -leader-elect: want lease, life or off"},
		{"no port in the hub's address", "--hub-address=hub", "", "", `invalid value "hub" for flag -hub-address: want HOST:PORT`},
		{"a hub's address that is a colon", "--hub-address=:", "", "", "for flag -hub-address"},
		{"a hub's address with a scheme", "", "OOOI_HUB_ADDRESS", "https://hub:8443", "for $OOOI_HUB_ADDRESS"},
		{"a hub's address on port 0", "--hub-address=hub:0", "", "", "for flag -hub-address"},
		{"a hub that listens nowhere", "--hub-bind-address=0", "", "", `invalid value "0" for flag -hub-bind-address: want HOST:PORT or :PORT`},
		{"metrics on a port that is none", "--metrics-bind-address=:70000", "", "", "for flag -metrics-bind-address: want HOST:PORT, :PORT, or 0"},
		{"metrics without a port", "", "OOOI_METRICS_BIND_ADDRESS", "8080", `invalid value "8080" for $OOOI_METRICS_BIND_ADDRESS`},
		{"probes without a port", "--health-probe-bind-address=x", "", "", "for flag -health-probe-bind-address"},
		{"no namespace", "--namespace=", "", "", `invalid value "" for flag -namespace`},
		{"a namespace that no cluster has", "", "POD_NAMESPACE", "A/b", "for $POD_NAMESPACE: want the name of a namespace"},
		{"an argument", "extra", "", "", `unexpected argument "extra"`},
		{"an unknown level", "--log-level=loud", "", "", `invalid value "loud" for flag -log-level: want debug, info, warn or error`},
		{"a level between two", "", "OOOI_LOG_LEVEL", "info+1", "for $OOOI_LOG_LEVEL: want debug"},
		{"neither true nor false", "--label-namespaces=perhaps", "", "", `invalid boolean value "perhaps" for -label-namespaces: want true or false`},
		{"a variable that is neither", "", "OOOI_ENABLE_OPENSHIFT", "perhaps", `invalid value "perhaps" for $OOOI_ENABLE_OPENSHIFT: want true or false`},
		{"an unknown flag", "--colour", "", "", "colour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var args []string
			if c.arg != "" {
				args = append(args, c.arg)
			}
			_, err := app.ParseOptions(args, func(k string) (string, bool) { return c.value, k == c.env }, io.Discard, io.Discard)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, app.ErrUsage)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestOptionsThatCanBe(t *testing.T) {
	o, err := app.ParseOptions([]string{
		"--hub-bind-address=127.0.0.1:0", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-level=WARN", "--enable-openshift",
		"--metrics-secure=false", "--hub-address=192.0.2.9:8443", "--fence=on",
	}, func(k string) (string, bool) {
		// Empty is none, and a flag beats a variable that is wrong.
		return map[string]string{"OOOI_FENCE": "maybe"}[k], true
	}, io.Discard, io.Discard)
	require.NoError(t, err)
	require.True(t, o.OpenShift)
	require.True(t, o.LabelNamespaces)
	require.False(t, o.MetricsSecure)
	require.Equal(t, "oooi-system", o.Namespace)
	require.Equal(t, workload.FenceOn, o.Fence)
}

func TestARenderingThatCannotBeIsRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no certificate"), 0o600))
	none := func(string) (string, bool) { return "", false }
	for _, c := range []struct{ name, arg, want string }{
		{"a hub without a port", "--hub=foo", `invalid value "foo" for flag -hub: want HOST:PORT`},
		{"a hub that is a colon", "--hub=:", "for flag -hub: want"},
		{"a hub's IP that is none", "--hub-ip=foo", `invalid value "foo" for flag -hub-ip: want the IPv4 address`},
		{"a hub's IP of IPv6", "--hub-ip=2001:db8::1", "for flag -hub-ip"},
		{"a CA that is nowhere", "--hub-ca=/nowhere/ca.crt", "/nowhere/ca.crt"},
		{"a CA that is none", "--hub-ca=" + text, "holds no certificate"},
		{"an unknown SCC", "--scc=root", "for flag -scc: want reference or minimal"},
		{"an unknown fence", "--fence=maybe", "for flag -fence: want auto, on or off"},
		{"a time that is none", "--now=noon", `invalid value "noon" for flag -now: want a time as in RFC 3339`},
		{"neither true nor false", "--strict=perhaps", "-strict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := app.Render([]string{c.arg, "-f", t.TempDir()}, none, io.Discard, io.Discard)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, app.ErrUsage)
		})
	}
}
