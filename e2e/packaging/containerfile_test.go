package packaging_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/images"
	"github.com/densityops/oooi/e2e/packaging"
)

// TestContainerfilesMakeTheSameImages compares what a Containerfile says of an
// image with what "make images" builds: user, entrypoint and label for label.
func TestContainerfilesMakeTheSameImages(t *testing.T) {
	for component, path := range map[string]string{
		"operator": "operator", "dhcpd": "dhcpd", "fence": "dhcpd", "coredns": "corednsplugin", "xds-manager": "xds-manager",
	} {
		t.Run(component, func(t *testing.T) {
			spec, err := images.Component(component, "amd64", "bin")
			require.NoError(t, err)
			stage := lastStage(t, filepath.Join(root, path, "Containerfile"), component)
			require.Contains(t, stage, "USER "+spec.User)
			require.Contains(t, stage, fmt.Sprintf("ENTRYPOINT [%q]", spec.Entrypoint[0]))
			require.Contains(t, stage, "COPY --from=build "+spec.Files[0].Path+" "+spec.Files[0].Path)
		})
	}
	t.Run("envoy", func(t *testing.T) {
		spec, err := images.Envoy("amd64", "envoy", "libc")
		require.NoError(t, err)
		stage := lastStage(t, filepath.Join(root, "e2e/tools/envoy/Containerfile"), "")
		require.Contains(t, stage, "USER "+spec.User)
		require.Contains(t, stage, fmt.Sprintf("ENTRYPOINT [%q]", spec.Entrypoint[0]))
	})
	t.Run("bundle", func(t *testing.T) {
		stage := lastStage(t, filepath.Join(root, "manifests/olm/bundle.Containerfile"), "")
		for key, value := range table(t).Annotations() {
			require.Contains(t, stage, "LABEL "+key+"="+value)
		}
	})
	t.Run("catalog", func(t *testing.T) {
		stage := lastStage(t, filepath.Join(root, "manifests/olm/catalog.Containerfile"), "")
		pins, err := os.ReadFile(filepath.Join(root, "e2e/tools/opm/go.mod"))
		require.NoError(t, err)
		from, _, _ := strings.Cut(stage[0], " AS ")
		version := from[strings.LastIndex(from, ":")+1:]
		require.Contains(t, string(pins), "github.com/operator-framework/operator-registry "+version)
		require.Contains(t, stage, "LABEL operators.operatorframework.io.index.configs.v1=/configs")
	})
}

// lastStage are the lines of the stage of that name, or of the last one.
func lastStage(t *testing.T, path, name string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	stages := strings.Split("\n"+string(raw), "\nFROM ")
	stage := stages[len(stages)-1]
	if i := slices.IndexFunc(stages, func(s string) bool { return strings.HasPrefix(s, "scratch AS "+name+"\n") }); i >= 0 {
		stage = stages[i]
	}
	return strings.Split("FROM "+stage, "\n")
}

// TestTheCatalogsImageIsWhatOLMStarts: OLM runs the image's own command and
// looks at it by grpc_health_probe.
func TestTheCatalogsImageIsWhatOLMStarts(t *testing.T) {
	builder := packaging.Builder{Root: root, Out: t.TempDir(), Log: os.Stderr, Prebuilt: prebuilt(t)}
	built, err := builder.Catalog(t.Context(), table(t), filepath.Join(root, "catalog"), []string{"amd64"})
	require.NoError(t, err)
	config, err := built.ByArch["amd64"].ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "/configs", config.Config.Labels["operators.operatorframework.io.index.configs.v1"])
	require.Equal(t, []string{"/bin/opm"}, config.Config.Entrypoint)
	require.Equal(t, "65532:65532", config.Config.User)
	require.Contains(t, config.Config.Env[0], ":/bin:")
	require.Contains(t, config.Config.Cmd, "/configs")
}
