package pods

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// checkDrain deletes the proxy's pod while a connection has two seconds to go:
// it ends by itself, and no new one is taken meanwhile (behaviour E11).
func (l *lab) checkDrain(t *testing.T, vm *node.VM) {
	ended := l.hold(t, vm, "api."+domainA, 3)
	require.NoError(t, node.Wait(t.Context(), 10*time.Second, "the connection", func(ctx context.Context) error {
		out, err := vm.Output(ctx, "ss", "-Htn", "state", "established", "dst", proxyIP+":6443")
		if err == nil && out == "" {
			err = errors.New("none is open")
		}
		return err
	}))
	_, err := l.Kubectl(t.Context(), "delete", "pod", "-n", "clusters", "-l", "app.kubernetes.io/component=proxy", "--wait=false")
	require.NoError(t, err)
	require.NoError(t, ended(), "what was open must end by itself")
	start := time.Now()
	require.NoError(t, node.Wait(t.Context(), time.Minute, "the next proxy", l.reaches(vm, "api."+domainA, l.a+"/api")))
	l.progress.Say("the proxy drained, and the next answers %.1fs later", time.Since(start).Seconds())
}
