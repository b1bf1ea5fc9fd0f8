package ingress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
