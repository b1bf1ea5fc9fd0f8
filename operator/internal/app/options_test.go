package app_test

import (
	"io"
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
	none := func(string) (string, bool) { return "", false }
	for _, c := range []struct{ name, arg, want string }{
		{"an unknown SCC", "--scc=root", "--scc"},
		{"an unknown fence", "--fence=maybe", "--fence"},
		{"an unknown leader", "--leader-elect=true", "--leader-elect"},
		{"no port in the hub's address", "--hub-address=hub", "--hub-address"},
		{"no namespace", "--namespace=", "--namespace"},
		{"an argument", "extra", "extra"},
		{"an unknown level", "--log-level=loud", "--log-level"},
		{"an unknown flag", "--colour", "colour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := app.ParseOptions([]string{c.arg}, none, io.Discard, io.Discard)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, app.ErrUsage)
		})
	}
	_, err := app.ParseOptions(nil, func(k string) (string, bool) { return "perhaps", k == "OOOI_ENABLE_OPENSHIFT" }, io.Discard, io.Discard)
	require.ErrorContains(t, err, "OOOI_ENABLE_OPENSHIFT")
}
