package packaging_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// The suites of operator-sdk that OperatorHub and OpenShift's community
// catalog ask for. "multiarch" is not among them: it pulls the images with a
// container engine; TestImagesAreForEveryArchitecture looks at ours instead.
func TestOperatorSDKValidatesTheBundle(t *testing.T) {
	for _, suite := range []string{
		"suite=operatorframework", "name=operatorhubv2", "name=community", "name=capabilities", "name=categories",
		"name=good-practices", "name=alpha-deprecated-apis",
	} {
		t.Run(suite, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), tool(t, "operator-sdk"), "bundle", "validate", filepath.Join(root, "bundle"),
				"--select-optional", suite, "--output", "json-alpha1")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			require.NoError(t, cmd.Run(), "%s%s", &stdout, &stderr)
			var result struct {
				Passed  bool
				Outputs []struct{ Type, Message string }
			}
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &result), stdout.String())
			require.True(t, result.Passed)
			for _, output := range result.Outputs {
				// "community" says that it is deprecated itself. Events of the group
				// events.k8s.io are taken for those of its version v1beta1, whatever the
				// version, which a rule does not name.
				if !strings.Contains(output.Message, "validator is deprecated") && !strings.Contains(output.Message, "Migrate the API(s) for events:") {
					require.NotContains(t, []string{"warning", "error"}, output.Type, output.Message)
				}
			}
		})
	}
}

// TestScorecardPasses runs the tests of scorecard's configuration from their
// own binary, which reads nothing but /bundle. In a cluster they are pods.
func TestScorecardPasses(t *testing.T) {
	jail := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(jail, "bundle"), os.DirFS(filepath.Join(root, "bundle"))))
	binary, err := os.ReadFile(tool(t, "scorecard-test"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(jail, "scorecard-test"), binary, 0o700))
	raw, err := os.ReadFile(filepath.Join(root, "bundle/tests/scorecard/config.yaml"))
	require.NoError(t, err)
	var config struct {
		Stages []struct {
			Tests []struct{ Entrypoint []string }
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &config))
	require.Len(t, config.Stages[0].Tests, 6)
	for _, test := range config.Stages[0].Tests {
		name := test.Entrypoint[1]
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/scorecard-test", name)
			cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: jail}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			var status struct {
				Results []struct {
					Name, State         string
					Errors, Suggestions []string
				}
			}
			// It ends with 0 whatever it found.
			require.NoError(t, json.Unmarshal(out, &status), string(out))
			require.NotEmpty(t, status.Results)
			for _, result := range status.Results {
				require.Equal(t, "pass", result.State, "%s: %v", result.Name, result.Errors)
				if name != "olm-status-descriptors" { // It wants a status in the examples, which a person never writes.
					require.Empty(t, result.Suggestions, result.Name)
				}
			}
		})
	}
}
