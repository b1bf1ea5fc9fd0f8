package proxy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

const goldens = "../../xds-manager/internal/translate/testdata"

// staticBootstrap makes a bootstrap of what the manager would send, for Envoy's
// own validation.
func staticBootstrap(t *testing.T, printed string) []byte {
	t.Helper()
	static := map[string][]any{"clusters": {map[string]any{
		"name": "xds", "type": "STATIC", "connect_timeout": "1s",
		"typed_extension_protocol_options": map[string]any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
			"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
		}},
		"load_assignment": map[string]any{"cluster_name": "xds", "endpoints": []any{map[string]any{"lb_endpoints": []any{map[string]any{
			"endpoint": map[string]any{"address": map[string]any{"pipe": map[string]any{"path": "/tmp/none.sock"}}},
		}}}}},
	}}}
	for line := range strings.Lines(printed) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		switch {
		case m["loadAssignment"] != nil:
			static["clusters"] = append(static["clusters"], m)
		case m["address"] != nil:
			static["listeners"] = append(static["listeners"], m)
		}
	}
	b, err := json.Marshal(map[string]any{
		"node": map[string]any{"id": "n", "cluster": "c"}, "static_resources": static,
		"dynamic_resources": map[string]any{"ads_config": map[string]any{
			"api_type": "DELTA_GRPC", "transport_api_version": "V3",
			"grpc_services": []any{map[string]any{"envoy_grpc": map[string]any{"cluster_name": "xds"}}},
		}},
	})
	require.NoError(t, err)
	return b
}

// behaviour E9: Envoy itself takes every golden file, as a file and by xDS.
func TestEveryGoldenFileIsTakenByEnvoy(t *testing.T) {
	w := newWorld(t)
	dirs, err := os.ReadDir(goldens)
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, d := range dirs {
		in := filepath.Join(goldens, d.Name(), "in.json")
		content, err := os.ReadFile(in)
		require.NoError(t, err)
		t.Run(d.Name(), func(t *testing.T) {
			file := w.Path("golden.json")
			require.NoError(t, os.WriteFile(file, content, 0o644))
			// A snapshot with problems is an error of the command, and printed all the same.
			printed, _ := w.Pod.Exec(t.Context(), lab.Spec{Args: []string{w.manager, "check", "--print", "--pod-ip", PodIP.String(), file}})
			require.Equal(t, d.Name() == "nothing", printed == "", "the command prints what it makes")
			boot := w.Path("validate.json")
			require.NoError(t, os.WriteFile(boot, staticBootstrap(t, printed), 0o644))
			out, err := w.Pod.Exec(t.Context(), lab.Spec{Args: []string{w.envoy, "--mode", "validate", "-c", boot, "--disable-hot-restart"}})
			require.NoError(t, err)
			require.Contains(t, out, "OK")

			require.NoError(t, w.WriteSnapshot(content))
			require.NoError(t, w.StartManager())
			require.NoError(t, w.StartEnvoy(t.Context()))
			require.NoError(t, w.Ready(t.Context()), "accepted by xDS")
			require.Zero(t, w.metric(`oooi_xds_nacks_total{type="listener"}`))
			require.Zero(t, w.metric(`oooi_xds_nacks_total{type="cluster"}`))
			require.NoError(t, w.Manager.Kill())
			require.NoError(t, w.Envoy.Kill())
		})
	}
}

// The bootstrap is taken in both forms.
func TestTheBootstrapIsTakenByEnvoyInBothForms(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"b.yaml", "b.json"} {
		_, err := w.Pod.Exec(t.Context(), lab.Spec{Args: []string{w.manager, "bootstrap", "--out", w.Path(name), "--pod-ip", PodIP.String()}})
		require.NoError(t, err)
		out, err := w.Pod.Exec(t.Context(), lab.Spec{Args: []string{w.envoy, "--mode", "validate", "-c", w.Path(name), "--disable-hot-restart"}})
		require.NoError(t, err)
		require.Contains(t, out, "OK")
	}
}
