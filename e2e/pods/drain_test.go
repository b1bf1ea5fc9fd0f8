package pods

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// checkDrain rolls the proxy out anew while a connection is busy: it has the five
// seconds of the drain to end by itself (behaviour E11). A pod that is deleted has a
// successor at once, which takes the address over, and nothing is left to drain.
func (l *lab) checkDrain(t *testing.T, vm *node.VM) {
	const other = "localhost/e2e/oooi-xds-manager:2"
	l.loadImages(t, other)
	connection := l.hold(t, vm, "api."+domainA)
	_, err := l.Kubectl(t.Context(), "patch", "-n", "clusters", "infra/tenant-vlan100", "--type=merge", "-p",
		`{"spec":{"infraComponents":{"proxy":{"managerImage":"`+other+`"}}}}`)
	require.NoError(t, err)
	require.NoError(t, node.Wait(t.Context(), time.Minute, "the proxy to be told to go", func(ctx context.Context) error {
		out, err := l.Kubectl(ctx, "get", "pods", "-n", "clusters", "-l", "app.kubernetes.io/component=proxy", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}")
		if err == nil && out == "" {
			err = errors.New("it was not")
		}
		return err
	}))
	start := time.Now()
	require.Error(t, connection.ended(), "the drain does not last for ever")
	lived := time.Since(start)
	require.Greater(t, lived, 3*time.Second, "the connection was cut at once")
	l.runs(t, "proxy", other)
	require.NoError(t, node.Wait(t.Context(), time.Minute, "the next proxy", l.reaches(vm, "api."+domainA, l.a+"/api")))
	l.progress.Say("a busy connection had %.1fs to end, and the next proxy answers %.1fs later", lived.Seconds(), (time.Since(start) - lived).Seconds())
	l.whole(t)
	l.expect(t, time.Minute, "infra/tenant-vlan100", "Available", "True")
}
