package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// behaviour B4, hazard 22: kubelet asks the pod's own address, never the one on the
// VLAN, which a node may not reach; and so do our own pods, by ClusterIP.
func TestProbesAskThePodsOwnAddress(t *testing.T) {
	t.Parallel()
	for name, objects := range stacks(options()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ready := 0
			for _, c := range only[*appsv1.Deployment](t, objects).Spec.Template.Spec.Containers {
				ports := map[string]bool{}
				for _, p := range c.Ports {
					ports[p.Name] = true
				}
				for kind, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
					if p == nil {
						require.Equal(t, "readiness", kind, c.Name)
						continue
					}
					require.NotNil(t, p.HTTPGet, "%s of %s", kind, c.Name)
					require.Empty(t, p.HTTPGet.Host, "%s of %s: the pod's own address", kind, c.Name)
					require.True(t, ports[p.HTTPGet.Port.StrVal], "%s of %s: a port that the container names", kind, c.Name)
					if kind == "readiness" {
						ready++
					}
				}
			}
			require.Equal(t, 1, ready, "one container says whether the pod is ready")
		})
	}
}
