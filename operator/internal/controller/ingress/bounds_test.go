package ingress

import (
	"strings"
	"testing"
	"time"
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

// hazard 215: two hundred clusters that wait for the same are not asked at one
// moment, and none later than it should be.
func TestWaitsAreSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 200 {
		after := spread(15 * time.Second)
		require.LessOrEqual(t, after, 15*time.Second)
		require.GreaterOrEqual(t, after, 12*time.Second)
		seen[after] = true
	}
	require.Greater(t, len(seen), 100)
	require.Equal(t, time.Duration(0), spread(0))
}
