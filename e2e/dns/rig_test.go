package dns

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// ready is a rig whose CoreDNS serves the example snapshot. The files lie where
// a program without rights may look.
func ready(t *testing.T, env ...string) *Rig {
	t.Helper()
	r := idle(t, env...)
	require.NoError(t, r.Snapshot())
	require.NoError(t, r.Start(t.Context()))
	return r
}

func idle(t *testing.T, env ...string) *Rig {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) //nolint:gosec // for a program without rights
	r, err := NewRig(t.Context(), lab.ForTest(t), dir)
	require.NoError(t, err)
	r.Env = env
	return r
}

// tool is a program that `make test-e2e` fetches into bin/tools.
func tool(t *testing.T, path string) string {
	t.Helper()
	root, err := Root()
	require.NoError(t, err)
	file := filepath.Join(root, "bin", "tools", path)
	require.FileExists(t, file, "run `make test-e2e`, which fetches it")
	return file
}
