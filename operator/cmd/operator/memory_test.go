package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory is given back once after work, not while it lasts and not at rest.
func TestMemoryIsGivenBackAtRest(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	r := release{}
	total := uint64(0)
	for i, step := range []struct {
		megabytes uint64
		want      bool
	}{{60, false}, {300, false}, {2, true}, {1, false}, {3, false}, {25, false}, {12, true}, {0, false}, {11, false}, {11, false}, {11, true}} {
		total += step.megabytes * mb
		require.Equal(t, step.want, r.due(total), "look %d", i)
	}
}
