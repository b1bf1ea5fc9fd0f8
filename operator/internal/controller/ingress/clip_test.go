package ingress

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// What a hosted cluster writes never makes a status too long for the API
// server: that would freeze all of it.
func TestATenantsWordsAreClipped(t *testing.T) {
	require.Equal(t, "short", clip("short"))
	for _, s := range []string{strings.Repeat("x", 40_000), strings.Repeat("é", 20_000), "\xff" + strings.Repeat("y", 3000)} {
		got := clip(s)
		require.Less(t, len(got), 2048)
		require.True(t, utf8.ValidString(got))
	}
}
