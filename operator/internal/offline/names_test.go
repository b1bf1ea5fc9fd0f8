package offline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/offline"
)

// Names become file names: one that leaves the directory is refused, as the API
// server would.
func TestNamesThatNoAPIServerTakesAreRefused(t *testing.T) {
	for _, metadata := range []string{`{name: "../../escaped"}`, `{name: a, namespace: "../b"}`, `{}`} {
		err := new(offline.Objects).Read("in.yaml", []byte("apiVersion: hostedcluster.densityops.com/v1alpha1\nkind: ProxyServer\nmetadata: "+metadata+"\n"))
		require.ErrorContains(t, err, "metadata.name")
	}
}
