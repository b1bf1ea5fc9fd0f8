package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestAFileIsOfOneGenerationOfALivingChild(t *testing.T) {
	t.Parallel()
	living := func(uids ...types.UID) func() map[types.UID]bool {
		return func() map[types.UID]bool {
			out := map[types.UID]bool{}
			for _, uid := range uids {
				out[uid] = true
			}
			return out
		}
	}
	var f files
	_, ok := f.get("a", 1)
	require.False(t, ok)
	f.put("a", file{generation: 1, version: "one"}, living("a"))
	is, ok := f.get("a", 1)
	require.True(t, ok)
	require.Equal(t, "one", is.version)
	_, ok = f.get("a", 2)
	require.False(t, ok, "another generation is another snapshot")
	f.put("a", file{generation: 2, version: "two"}, living())
	_, ok = f.get("a", 1)
	require.False(t, ok)
	_, ok = f.get("a", 2)
	require.True(t, ok, "a cache that lags behind makes nobody forget the child itself")
	f.put("b", file{generation: 1}, living("b"))
	_, ok = f.get("a", 2)
	require.False(t, ok, "a child that is gone is forgotten with the next that comes")
	_, ok = f.get("b", 1)
	require.True(t, ok)
}
