package render_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/internal/render"
)

// behaviours B3, B4, B5: the pods have the shape that was proven on a real node
// (e2e/pods). What the API server would default is written out here, and so is
// the priority, which a bare node does not need.
func TestPodsHaveTheProvenShape(t *testing.T) {
	t.Parallel()
	o := options()
	meta := func(component string) metav1.ObjectMeta {
		m := owned("vlan100", component)
		m.Namespace = "vlan100"
		return m
	}
	d, n, p := dhcp(meta("dhcp")), dns(meta("dns")), proxy(meta("proxy"))
	d.Spec.NetworkConfig.NetworkAttachmentNamespace = "default"
	n.Spec.NetworkConfig.NetworkAttachmentNamespace = "default"
	p.Spec.NetworkConfig.NetworkAttachmentNamespace = "default"
	for component, objects := range map[string][]render.Object{
		render.ComponentDHCP: render.DHCP(d, o), render.ComponentDNS: render.DNS(n, o), render.ComponentProxy: render.Proxy(p, o),
	} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", "..", "e2e", "pods", "testdata", component+".yaml"))
			require.NoError(t, err)
			var want appsv1.Deployment
			require.NoError(t, yaml.UnmarshalStrict(text, &want))
			want.Labels[render.LabelOwnerNamespace] = "vlan100"
			want.Spec.Template.Spec.PriorityClassName = "system-cluster-critical"
			writeDefaults(&want.Spec.Template.Spec)
			require.Empty(t, cmp.Diff(&want, only[*appsv1.Deployment](t, objects)), "-proven +rendered")
		})
	}
}

// writeDefaults writes out what the API server would default.
func writeDefaults(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for j := range list[i].Env {
				if from := list[i].Env[j].ValueFrom; from != nil && from.FieldRef != nil {
					from.FieldRef.APIVersion = "v1"
				}
			}
			for j := range list[i].Ports {
				list[i].Ports[j].Protocol = corev1.ProtocolTCP
			}
		}
	}
	for _, v := range spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.DownwardAPI != nil {
				source.DownwardAPI.Items[0].FieldRef.APIVersion = "v1"
			}
		}
	}
}

// behaviour E7: Envoy's heap is half of its container's limit, whatever the limit
// is, and by default it holds what the fence lets one source fill.
func TestTheBootstrapHearsOfEnvoysLimit(t *testing.T) {
	t.Parallel()
	const connections, each = 1024, 600 << 10
	spec := only[*appsv1.Deployment](t, render.Proxy(proxy(owned("infra", "proxy")), options())).Spec.Template.Spec
	boot := spec.InitContainers[len(spec.InitContainers)-1]
	require.Equal(t, "bootstrap", boot.Name)
	limit := slices.IndexFunc(boot.Env, func(e corev1.EnvVar) bool { return e.Name == "OOOI_ENVOY_MEMORY" })
	require.Equal(t, &corev1.ResourceFieldSelector{ContainerName: "envoy", Resource: "limits.memory"}, boot.Env[limit].ValueFrom.ResourceFieldRef)
	envoy := spec.Containers[slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == "envoy" })]
	require.Greater(t, envoy.Resources.Limits.Memory().Value()/2*9/10, int64(connections*each))
}
