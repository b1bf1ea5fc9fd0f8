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

// TestEveryVersionReachesTheHead: hazard 229.
func TestEveryVersionReachesTheHead(t *testing.T) {
	first := packaging.Channel{}.With("oooi.v0.1.0", ">=0.0.1 <0.1.0")
	for name, tt := range map[string]struct {
		channel packaging.Channel
		want    []string
	}{
		"one version alone": {channel: first},
		"each version replaces the one before": {
			channel: first.With("oooi.v0.2.0", ">=0.0.1 <0.2.0").With("oooi.v0.2.1", ">=0.0.1 <0.2.1"),
		},
		"a version that is made again keeps its place": {
			channel: first.With("oooi.v0.2.0", ">=0.0.1 <0.2.0").With("oooi.v0.1.0", ">=0.0.1 <0.1.0"),
		},
		"a version that nothing replaces or skips": {
			channel: packaging.Channel{Entries: []packaging.ChannelEntry{
				{Name: "oooi.v0.1.0"}, {Name: "oooi.v0.2.0", SkipRange: ">=0.1.5 <0.2.0"},
			}},
			want: []string{"there are 2 heads: [oooi.v0.1.0 oooi.v0.2.0]"},
		},
		"a chain with a hole": {
			channel: packaging.Channel{Entries: []packaging.ChannelEntry{
				{Name: "oooi.v0.1.0"}, {Name: "oooi.v0.2.0", Replaces: "oooi.v0.1.0"}, {Name: "oooi.v0.3.0", Replaces: "oooi.v0.2.9"},
			}},
			want: []string{"there are 2 heads: [oooi.v0.2.0 oooi.v0.3.0]"},
		},
		"a ring beside the chain": {
			channel: packaging.Channel{Entries: []packaging.ChannelEntry{
				{Name: "oooi.v0.1.0", Replaces: "oooi.v0.1.1"}, {Name: "oooi.v0.1.1", Replaces: "oooi.v0.1.0"}, {Name: "oooi.v0.3.0"},
			}},
			want: []string{"oooi.v0.1.0 never reaches oooi.v0.3.0", "oooi.v0.1.1 never reaches oooi.v0.3.0"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, tt.channel.Problems()) })
	}
}

func TestTheCatalogsChannelsAreWhole(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "catalog/oooi/channel-*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		channel, err := packaging.ReadChannel(file)
		require.NoError(t, err)
		require.Empty(t, channel.Problems(), file)
		for _, entry := range channel.Entries {
			require.FileExists(t, filepath.Join(filepath.Dir(file), entry.Name+".yaml"))
		}
	}
}

// bundleWith copies the bundle with one text of its CRDs changed.
func bundleWith(t *testing.T, old, new string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(root, "bundle/manifests/*.crd.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 5)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "manifests"), 0o755))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "manifests", filepath.Base(file)), []byte(strings.ReplaceAll(string(raw), old, new)), 0o600))
	}
	return dir
}

// TestAVersionThatWasStoredStays: hazard 224.
func TestAVersionThatWasStoredStays(t *testing.T) {
	current := filepath.Join(root, "bundle")
	for name, tt := range map[string]struct {
		older, newer string
		want         string
	}{
		"the same bundle":                     {older: current, newer: current},
		"a version is renamed":                {older: current, newer: bundleWith(t, "name: v1alpha1", "name: v1beta1"), want: "version v1alpha1 has been stored and is gone"},
		"a version is not served any more":    {older: current, newer: bundleWith(t, "served: true", "served: false"), want: "version v1alpha1 was served and is not any more"},
		"a kind is gone, or has another name": {older: current, newer: bundleWith(t, "name: infras.", "name: vlans."), want: "infras.hostedcluster.densityops.com is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			problems, err := packaging.CRDUpgradeProblems(tt.older, tt.newer)
			require.NoError(t, err)
			if tt.want == "" {
				require.Empty(t, problems)
				return
			}
			require.Contains(t, strings.Join(problems, "\n"), tt.want)
		})
	}
}

// releasedCRs are resources as people wrote them for released versions: the
// schema of today has to take them all.
const releasedCRs = "testdata/released"

// TestResourcesOfOlderVersionsStayValid: hazard 225. OLM checks what is there
// against the new schema before it upgrades, and more strictly than the API
// server, which lets an unchanged field pass.
func TestResourcesOfOlderVersionsStayValid(t *testing.T) {
	c := sharedCluster(t)
	c.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: clusters}}")
	versions, err := filepath.Glob(filepath.Join(releasedCRs, "v*"))
	require.NoError(t, err)
	require.NotEmpty(t, versions)
	for _, dir := range versions {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		require.NoError(t, err)
		require.Len(t, files, 5, "%s: one file a kind", dir)
		for _, file := range files {
			c.must(t, "create", "--dry-run=server", "--validate=strict", "-f", file)
		}
	}
}

// TestATighterSchemaIsSeen is the proof that the check above can fail.
func TestATighterSchemaIsSeen(t *testing.T) {
	c := newCluster(t)
	c.must(t, "create", "namespace", "clusters")
	c.must(t, "apply", "--server-side", "-f", filepath.Join(bundleWith(t, "maxLength: 512", "maxLength: 3"), "manifests"))
	c.established(t)
	_, err := c.try(t.Context(), "", "create", "--dry-run=server", "-f", releasedCRs+"/v0.1.0/infra.yaml")
	require.ErrorContains(t, err, "Too long")
}

// TestTheBundleFollowsEveryReleasedOne compares the bundle with that of each
// tag of the operator. Before the first release the catalog holds one version.
func TestTheBundleFollowsEveryReleasedOne(t *testing.T) {
	tags := strings.Fields(git(t, root, "tag", "--list", "operator/v*"))
	if len(tags) == 0 {
		channel, err := packaging.ReadChannel(filepath.Join(root, "catalog/oooi/channel-"+table(t).DefaultChannel+".yaml"))
		require.NoError(t, err)
		require.Len(t, channel.Entries, 1)
	}
	for _, tag := range tags {
		older := t.TempDir()
		archive := exec.CommandContext(t.Context(), "sh", "-c", `git archive "$1" bundle/manifests | tar -x -C "$2"`, "sh", tag, older)
		archive.Dir = root
		out, err := archive.CombinedOutput()
		require.NoError(t, err, string(out))
		problems, err := packaging.CRDUpgradeProblems(filepath.Join(older, "bundle"), filepath.Join(root, "bundle"))
		require.NoError(t, err)
		require.Empty(t, problems, tag)
		require.DirExists(t, filepath.Join(releasedCRs, strings.TrimPrefix(tag, "operator/")), "resources of each release stay to be checked")
	}
}
