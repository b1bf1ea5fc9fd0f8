package lead

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// client-go looks through wrappers for what can cancel a request, and complains in
// our log of one that it cannot look through.
func TestAGateShowsWhatItWraps(t *testing.T) {
	t.Parallel()
	inner, term := &http.Transport{}, NewTerm()
	for _, wrap := range []func(http.RoundTripper) http.RoundTripper{term.Through, term.Now} {
		outer, ok := wrap(inner).(utilnet.RoundTripperWrapper)
		require.True(t, ok)
		require.Same(t, inner, outer.WrappedRoundTripper())
	}
}
