package world_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/demo/world"
)

// A third cluster that was copied with its VMs' hardware addresses is refused by
// field, value and owner, before anything boots.
func TestTwoVMsOfOneHardwareAddressAreRefused(t *testing.T) {
	t.Parallel()
	objects := filepath.Join("..", "objects")
	text, err := os.ReadFile(filepath.Join("..", "testdata", "cluster-c.yaml"))
	require.NoError(t, err)
	one, err := world.Read(objects, filepath.Join("..", "testdata"))
	require.NoError(t, err)
	require.Len(t, one.Clusters, 3)

	copied := t.TempDir()
	taken, given := one.Clusters[0].Machines[0].MAC, one.Clusters[2].Machines[0].MAC
	require.Contains(t, string(text), given)
	require.NoError(t, os.WriteFile(filepath.Join(copied, "c.yaml"), bytes.ReplaceAll(text, []byte(given), []byte(taken)), 0o600))
	_, err = world.Read(objects, copied)
	require.ErrorContains(t, err, `spec.domain.devices.interfaces[0].macAddress "`+taken+`" is `+one.Clusters[0].Machines[0].Name+"'s in "+one.Clusters[0].Namespace)
}
