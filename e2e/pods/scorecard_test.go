package pods

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// checkScorecard runs operator-sdk's scorecard on the bundle as its users do: a
// pod for each test of the bundle's configuration (behaviour I2).
func (l *lab) checkScorecard(t *testing.T) {
	t.Helper()
	bundle := filepath.Join(l.root, "bundle")
	raw, err := os.ReadFile(filepath.Join(bundle, "tests/scorecard/config.yaml"))
	require.NoError(t, err)
	var config struct {
		Stages []struct{ Tests []struct{ Image string } }
	}
	require.NoError(t, yaml.Unmarshal(raw, &config))
	const untar = "localhost/busybox:1"
	l.loadImages(t, untar, config.Stages[0].Tests[0].Image)
	_, err = l.Kubectl(t.Context(), "create", "namespace", "scorecard")
	require.NoError(t, err)
	out, err := l.Control.Output(t.Context(), filepath.Join(l.tools, "operator-sdk"), "scorecard", bundle, "--kubeconfig", l.Kubeconfig(),
		"--namespace", "scorecard", "--untar-image", untar, "--wait-time", patience.String(), "--output", "json")
	require.NoError(t, err, out)
	var list struct {
		Items []struct {
			Status struct {
				Results []struct {
					Name, State, Log string
					Errors           []string
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &list), out)
	require.Len(t, list.Items, len(config.Stages[0].Tests))
	for _, item := range list.Items {
		require.NotEmpty(t, item.Status.Results)
		for _, result := range item.Status.Results {
			require.Equal(t, "pass", result.State, "%s: %v %s", result.Name, result.Errors, result.Log)
		}
	}
	l.progress.Say("scorecard passes: %d tests, each in its pod", len(list.Items))
}
