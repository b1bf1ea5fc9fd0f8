package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachFaultStillApplies(t *testing.T) {
	patches, err := filepath.Glob("*.patch")
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	for _, patch := range patches {
		here, err := filepath.Abs(patch)
		require.NoError(t, err)
		check := exec.CommandContext(t.Context(), "git", "apply", "--check", here)
		check.Dir = "../.."
		out, err := check.CombinedOutput()
		require.NoError(t, err, "%s: make the fault anew: %s", patch, out)
		text, err := os.ReadFile(patch)
		require.NoError(t, err)
		require.Regexp(t, `^[^\n]+\.\nIn: \S+\nSays: [^\n]+\n\ndiff `, string(text), "%s: what is wrong, where it is seen, and in which words", patch)
	}
}
