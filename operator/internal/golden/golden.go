package golden

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Cases are the directories below testdata that hold an in.yaml.
func Cases(t *testing.T, root string) []string {
	t.Helper()
	inputs, err := filepath.Glob(filepath.Join(root, "*", "in.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, inputs, "no case lies below %s", root)
	out := make([]string, len(inputs))
	for i, in := range inputs {
		out[i] = filepath.Dir(in)
	}
	return out
}

// Compare checks every file of a case. Their names start with "want"; what the
// case holds beside them and in.yaml does not count.
func Compare(t *testing.T, dir string, got map[string][]byte) {
	t.Helper()
	stale, err := filepath.Glob(filepath.Join(dir, "want*"))
	require.NoError(t, err)
	for name := range got {
		require.True(t, strings.HasPrefix(name, "want"), "golden file %s does not start with want", name)
		stale = slices.DeleteFunc(stale, func(path string) bool { return filepath.Base(path) == name })
	}
	if *update {
		for _, path := range stale {
			require.NoError(t, os.Remove(path))
		}
		for name, text := range got {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
		}
		return
	}
	require.Empty(t, stale, "golden files that nothing makes; run with -update")
	for name, text := range got {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err, "run with -update to write it")
		require.Empty(t, cmp.Diff(string(want), string(text)), "%s differs (-want +got); run with -update if that is right", filepath.Join(dir, name))
	}
}

// File checks one file, of whatever name.
func File(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run with -update to write it")
	require.Empty(t, cmp.Diff(string(want), string(got)), "%s differs (-want +got); run with -update if that is right", path)
}
