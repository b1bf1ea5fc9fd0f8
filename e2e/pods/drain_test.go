package pods

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// checkDrain rolls the proxy out anew while a connection is busy: it has the five
// seconds of the drain to end by itself, while nobody new is let in (behaviour E11). A pod that is deleted has a
// successor at once, which takes the address over, and nothing is left to drain.
func (l *lab) checkDrain(t *testing.T, vm *node.VM) {
	const other = "localhost/e2e/oooi-xds-manager:2"
	l.loadImages(t, other)
	connection := l.hold(t, vm, "api."+domainA)
	_, err := l.Kubectl(t.Context(), "patch", "-n", "clusters", "infra/tenant-vlan100", "--type=merge", "-p",
		`{"spec":{"infraComponents":{"proxy":{"managerImage":"`+other+`"}}}}`)
	require.NoError(t, err)
	require.NoError(t, node.Wait(t.Context(), patience, "the door to be closed", l.reaches(vm, "api."+domainA, "refused")))
	start := time.Now()
	end := connection.ended()
	lived := time.Since(start)
	require.Equal(t, "closed", end.how, "the drain does not last for ever, and its end is no silence: %v", end.err)
	require.Greater(t, lived, time.Second, "the connection was cut when the door was closed")
	l.runs(t, "proxy", other)
	require.NoError(t, node.Wait(t.Context(), patience, "the next proxy", l.reaches(vm, "api."+domainA, l.a+"/api")))
	l.progress.Say("a busy connection had %.1fs to end after the door was closed, and the next proxy answers %.1fs later", lived.Seconds(), (time.Since(start) - lived).Seconds())
	l.whole(t)
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
}
