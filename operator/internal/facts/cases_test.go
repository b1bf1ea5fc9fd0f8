package facts_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
)

// caseFile is one of testdata/cases.
func caseFile(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cases", name+".yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

func caseMachine(t *testing.T, name string, order func([]any)) facts.Machine {
	t.Helper()
	u := &unstructured.Unstructured{}
	caseFile(t, name, &u.Object)
	addresses, _, err := unstructured.NestedSlice(u.Object, "status", "addresses")
	require.NoError(t, err)
	order(addresses)
	require.NoError(t, unstructured.SetNestedSlice(u.Object, addresses, "status", "addresses"))
	return facts.MachineOf(u)
}

func asIs([]any) {}

// case C39, hazard 5: both shapes of a Machine give one address, and the order of
// its entries nothing.
func TestCaseMachineAddressShapes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"machine-old-capk", "machine-new-capk"} {
		for order, sort := range map[string]func([]any){"as it is": asIs, "turned round": slices.Reverse[[]any]} {
			t.Run(name+" "+order, func(t *testing.T) {
				t.Parallel()
				w := world(func(w *facts.World) { w.Machines = []facts.Machine{caseMachine(t, name, sort)} })
				require.Equal(t, []v1alpha1.ObservedWorker{{Address: "192.0.2.101", Machine: vm}}, facts.ForAttachment(w, attachment(), noon).Observed.Workers)
			})
		}
	}
}

// case C42, hazards 6, 250: the address vanishes for 90 seconds, and for longer
// than a lease.
func TestCaseAddressesVanish(t *testing.T) {
	t.Parallel()
	a := attachment()
	at := func(name string, after time.Duration) []v1alpha1.ObservedWorker {
		w := world(func(w *facts.World) { w.Machines = []facts.Machine{caseMachine(t, name, asIs)} })
		f := facts.ForAttachment(w, a, noon.Add(after))
		a.Status.Observed, a.Status.ControlPlaneNamespace = f.Observed, "clusters-example-hcp-a"
		return f.Observed.Workers
	}
	require.Nil(t, at("machine-new-capk", 0)[0].LastSeen)
	gap := at("machine-no-ip", time.Second)
	require.Equal(t, v1alpha1.IPv4("192.0.2.101"), gap[0].Address)
	require.NotNil(t, gap[0].LastSeen, "the status shows that the address is stale")
	require.Equal(t, gap, at("machine-no-ip", 89*time.Second))
	require.Equal(t, []v1alpha1.ObservedWorker{{Address: "192.0.2.101", Machine: vm}}, at("machine-new-capk", 90*time.Second), "it is back")
	require.Len(t, at("machine-no-ip", 2*time.Minute), 1)
	require.Len(t, at("machine-no-ip", 61*time.Minute), 1, "held for a whole lease")
	require.Empty(t, at("machine-no-ip", 63*time.Minute), "and not for longer")
}

// case C43, hazards 1, 2, 26, 27, 240: a HostedCluster that does not point at us.
func TestCaseHostedClusterThatDoesNotPointAtUs(t *testing.T) {
	t.Parallel()
	var hosted hyperv1.HostedCluster
	var services corev1.ServiceList
	caseFile(t, "hostedcluster-endpoints", &hosted)
	caseFile(t, "hcp-services", &services)
	w := world(func(w *facts.World) { w.HostedClusters, w.Services = []hyperv1.HostedCluster{hosted}, services.Items })
	f := facts.ForAttachment(w, attachment(), noon)
	mismatch := conditionOf(t, f, v1alpha1.ConditionEndpointMismatch)
	require.Equal(t, v1alpha1.ReasonEndpointMismatch, mismatch.Reason)
	for _, want := range []string{
		"Konnectivity has no hostname", "konnectivity.example-hcp-a.clusters.example.com is served",
		"Ignition has no hostname", "ignition.example-hcp-a.clusters.example.com is served", "baseDomainPassthrough is true",
	} {
		require.Contains(t, mismatch.Message, want)
	}
	require.NotContains(t, mismatch.Message, "APIServer")
	require.NotContains(t, mismatch.Message, "OAuth")
	bypass := conditionOf(t, f, v1alpha1.ConditionClusterProxyBypassesVLAN)
	require.Equal(t, v1alpha1.ReasonClusterProxyBypassesVLAN, bypass.Reason)
	require.Contains(t, bypass.Message, "add api.example-hcp-a.clusters.example.com")
	leads := func(f facts.Attachment) map[v1alpha1.ServiceRole]string {
		out := map[v1alpha1.ServiceRole]string{}
		for _, s := range f.Observed.Services {
			out[s.Role] = s.Name + " " + string(s.ClusterIP) + " " + s.TargetPort
		}
		return out
	}
	want := map[v1alpha1.ServiceRole]string{
		v1alpha1.ServiceRoleAPIServer: "kube-apiserver 172.30.10.1 client", v1alpha1.ServiceRoleOAuth: "oauth-openshift 172.30.10.2 6443",
		v1alpha1.ServiceRoleKonnectivity: "konnectivity-server 172.30.10.3 8091", v1alpha1.ServiceRoleIgnition: "ignition-server-proxy 172.30.10.4 8443",
	}
	require.Equal(t, want, leads(f))
	ports := map[v1alpha1.ServiceRole]v1alpha1.Port{"APIServer": 6443, "OAuth": 6443, "Konnectivity": 8091, "Ignition": 443}
	for _, s := range f.Observed.Services {
		require.Equal(t, ports[s.Role], s.Port)
	}
	w.Services = slices.DeleteFunc(w.Services, func(s corev1.Service) bool { return s.Name == "ignition-server-proxy" })
	want[v1alpha1.ServiceRoleIgnition] = "ignition-server 172.30.10.5 9090"
	require.Equal(t, want, leads(facts.ForAttachment(w, attachment(), noon)))
}
