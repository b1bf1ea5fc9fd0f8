package contract_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkers read the snapshot of each kind, by the member that holds its configuration.
var checkers = map[string]string{"dhcp": "dhcpd", "dns": "coredns", "proxy": "xds-manager"}

// TestAgentsAcceptEverySnapshotOfTheOperator feeds the operator's golden
// snapshots, and those written by hand, to the agents' own check.
func TestAgentsAcceptEverySnapshotOfTheOperator(t *testing.T) {
	seen := map[string]int{}
	for _, dir := range []string{root(t, "operator"), root(t, "e2e", "snapshots")} {
		for _, path := range find(t, dir, func(path string) bool {
			return strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".json.gz")
		}) {
			kind := snapshotKind(t, path)
			if kind == "" {
				continue
			}
			seen[kind]++
			relative, err := filepath.Rel(root(t), path)
			require.NoError(t, err)
			t.Run(relative, func(t *testing.T) {
				said, err := exec.CommandContext(t.Context(), binary(t, checkers[kind]), "check", path).CombinedOutput()
				require.NoError(t, err, string(said))
			})
		}
	}
	for kind := range checkers {
		require.Greater(t, seen[kind], 1, "at least one %s snapshot of the operator's beside the one by hand", kind)
	}
}

// snapshotKind is the member that makes a file a snapshot, or empty.
func snapshotKind(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(bytes.NewReader(content))
		require.NoError(t, err)
		content, err = io.ReadAll(unzipped)
		require.NoError(t, err)
	}
	var file map[string]json.RawMessage
	if json.Unmarshal(content, &file) != nil {
		return ""
	}
	for kind := range checkers {
		if _, ok := file[kind]; ok {
			return kind
		}
	}
	return ""
}
