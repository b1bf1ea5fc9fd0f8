package pods

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
	"github.com/densityops/oooi/e2e/packaging"
)

// checkAttachmentChange removes one cluster and brings it back while a
// connection of the other is open (behaviour E8). That it lives beyond the time of a
// listener's drain is the proxy's own test.
func (l *lab) checkAttachmentChange(t *testing.T, vmA, vmB *node.VM, b *hostedCluster) {
	connection := l.hold(t, vmA, "api."+domainA)
	_, err := l.Kubectl(t.Context(), "delete", "-n", "clusters", "infraclusterattachment/"+b.Name, "--timeout=3m")
	require.NoError(t, err)
	// Its names and its VM without one: the ports are open for A and lead nowhere for B.
	for _, sni := range []string{"api." + domainB, "api-int." + domainB, ""} {
		require.NoError(t, node.Wait(t.Context(), patience, "B's routes to be closed", l.reaches(vmB, sni, "closed")))
	}
	require.NoError(t, node.Wait(t.Context(), patience, "B's names to be nobody's", l.resolves(vmB, "api."+domainB, elsewhere)))
	require.NoError(t, l.Apply(t.Context(), render(t, "attachment.yaml", b)))
	start := time.Now()
	require.NoError(t, node.Wait(t.Context(), patience, "B to be back", l.reaches(vmB, "api."+domainB, l.b+"/api")))
	require.NoError(t, node.Wait(t.Context(), patience, "B's alias to be back", l.reaches(vmB, "", l.b+"/api")))
	l.progress.Say("an attachment that was applied anew serves after %.1fs", time.Since(start).Seconds())
	require.NoError(t, connection.lives(), "a connection of A must live through it")
}

// dataPlane names the pods with their restarts.
func (l *lab) dataPlane(t *testing.T) string {
	t.Helper()
	out, err := l.Kubectl(t.Context(), "get", "pods", "-n", l.namespace, "-l", "app.kubernetes.io/managed-by=oooi-operator", "-o",
		`jsonpath={range .items[*]}{.metadata.uid} {.metadata.labels.app\.kubernetes\.io/component} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
	require.NoError(t, err)
	return out
}

// checkUpgrade has OLM replace the operator by the catalog's next version, whose
// operator's image is another one. The data plane, whose images are the same,
// does not notice (behaviours B13, I2).
func (l *lab) checkUpgrade(t *testing.T, vm, other *node.VM, next packaging.Table) {
	before := l.dataPlane(t)
	connection := l.hold(t, vm, "api."+domainA)
	l.approve(t, packaging.CSVName(next.Version))
	operator, found := next.Component("operator")
	require.True(t, found)
	require.NoError(t, node.Wait(t.Context(), patience, "the next operator alone", func(ctx context.Context) error {
		out, err := l.Kubectl(ctx, "get", "pods", "-n", "oooi-system", "-o", `jsonpath={.items[*].spec.containers[0].image}`)
		if err == nil && out != operator.Ref() {
			err = errors.New(out)
		}
		return err
	}))
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
	// What the next operator had to do it has done once a change of its own is through.
	l.setLeaseTime(t, other, 20*time.Minute)
	require.NoError(t, connection.lives(), "a connection must outlive the operator")
	require.Equal(t, before, l.dataPlane(t), "an upgrade replaced or restarted pods whose images are the same")
	l.progress.Say("an upgrade left the data plane untouched")
}

// checkOperatorKilled ends the operator under an open connection; the data plane
// does not notice (behaviour B13).
func (l *lab) checkOperatorKilled(t *testing.T, vm, other *node.VM) {
	before := l.dataPlane(t)
	connection := l.hold(t, vm, "api."+domainA)
	l.killed(t, "operator", func(context.Context) error { return nil })
	l.rollout(t, "oooi-system", "oooi-operator")
	l.setLeaseTime(t, other, 15*time.Minute)
	require.NoError(t, connection.lives(), "a connection must outlive the operator")
	require.Equal(t, before, l.dataPlane(t), "the operator's end replaced or restarted pods")
}
