package facts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const vm = "example-hcp-a-7k2lq-x9fzt"

// attachment of the examples.
func attachment(change ...func(*v1alpha1.InfraClusterAttachment)) *v1alpha1.InfraClusterAttachment {
	a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{Name: "example-hcp-a", Namespace: "clusters"}}
	a.Spec.InfraRef.Name = "tenant-vlan100"
	a.Spec.HostedClusterRef = v1alpha1.HostedClusterRef{Name: "example-hcp-a", Namespace: "clusters"}
	a.Spec.DNS = v1alpha1.AttachmentDNS{ClusterName: "example-hcp-a", BaseDomain: "clusters.example.com"}
	for _, f := range change {
		f(a)
	}
	return a
}

// inForce has been admitted before.
func inForce(a *v1alpha1.InfraClusterAttachment) {
	a.Status.Observed.HostedClusterUID, a.Status.ControlPlaneNamespace = "uid-a", v1alpha1.NamespaceName(facts.ControlPlaneOf(a))
}

// service of the control plane.
func service(name, ip string, ports ...corev1.ServicePort) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "clusters-example-hcp-a"}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports},
	}
}

// world of the examples: everything of example-hcp-a is there.
func world(change ...func(*facts.World)) facts.World {
	infra := v1alpha1.Infra{ObjectMeta: metav1.ObjectMeta{Name: "tenant-vlan100", Namespace: "clusters"}}
	infra.Spec.NetworkConfig = v1alpha1.InfraNetworkConfig{CIDR: "192.0.2.0/24", Gateway: "192.0.2.1", NetworkAttachmentDefinition: "vlan100"}
	w := facts.World{
		Infras:     []v1alpha1.Infra{infra},
		Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "clusters-example-hcp-a"}}},
		Services: []corev1.Service{
			service("kube-apiserver", "172.30.10.1", corev1.ServicePort{Port: 6443}),
			service("oauth-openshift", "172.30.10.2", corev1.ServicePort{Port: 6443}),
			service("konnectivity-server", "172.30.10.3", corev1.ServicePort{Port: 8091}),
			service("ignition-server-proxy", "172.30.10.4", corev1.ServicePort{Name: "https", Port: 443}),
		},
		HostedClusters: []hyperv1.HostedCluster{{ObjectMeta: metav1.ObjectMeta{Name: "example-hcp-a", Namespace: "clusters", UID: "uid-a"}}},
		HostedControlPlanes: []hyperv1.HostedControlPlane{{ObjectMeta: metav1.ObjectMeta{
			Name: "example-hcp-a", Namespace: "clusters-example-hcp-a", Annotations: map[string]string{"hypershift.openshift.io/cluster": "clusters/example-hcp-a"},
		}}},
		NodePools: []hyperv1.NodePool{{
			ObjectMeta: metav1.ObjectMeta{Name: "example-hcp-a", Namespace: "clusters"},
			Spec:       hyperv1.NodePoolSpec{ClusterName: "example-hcp-a", Platform: hyperv1.NodePoolPlatform{Type: hyperv1.KubevirtPlatform}},
		}},
		Machines: []facts.Machine{machine(vm, "192.0.2.101")},
	}
	for _, f := range change {
		f(&w)
	}
	return w
}

func machine(name string, addresses ...string) facts.Machine {
	return facts.Machine{
		Key: plan.Key{Namespace: "clusters-example-hcp-a", Name: name}, VM: name,
		NodePool: plan.Key{Namespace: "clusters", Name: "example-hcp-a"}, Addresses: addresses,
	}
}

func conditionOf(t *testing.T, f facts.Attachment, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(f.Conditions, kind)
	require.NotNil(t, c, kind)
	return *c
}

// behaviours F0, F2: who may attach what.
func TestAdmission(t *testing.T) {
	t.Parallel()
	foreign := func(allowed string) func(*facts.World) {
		return func(w *facts.World) {
			h := &w.HostedClusters[0]
			h.Namespace = "tenant"
			h.Annotations = map[string]string{facts.AnnotationAllowedNamespaces: allowed}
			w.HostedControlPlanes[0].Annotations["hypershift.openshift.io/cluster"] = "tenant/example-hcp-a"
		}
	}
	toTenant := func(a *v1alpha1.InfraClusterAttachment) {
		a.Spec.HostedClusterRef.Namespace, a.Spec.ControlPlaneNamespace = "tenant", "clusters-example-hcp-a"
	}
	moved := func(a *v1alpha1.InfraClusterAttachment) { a.Spec.ControlPlaneNamespace = "kube-system" }
	kubeSystem := func(w *facts.World) {
		w.Namespaces = append(w.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
	}
	unreadable := func(kind string) func(*facts.World) {
		return func(w *facts.World) {
			w.HostedClusters, w.HostedControlPlanes = nil, nil
			w.Unreadable = map[string]bool{kind: true}
		}
	}
	noCluster := func(w *facts.World) { w.HostedClusters = nil }
	noControlPlane := func(w *facts.World) { w.HostedControlPlanes = nil }
	noNamespace := func(w *facts.World) { w.HostedControlPlanes, w.Namespaces, w.Services = nil, nil, nil }
	ofAnother := func(w *facts.World) {
		w.HostedControlPlanes[0].Annotations["hypershift.openshift.io/cluster"] = "clusters/victim"
	}
	withAnother := func(w *facts.World) {
		other := w.HostedControlPlanes[0].DeepCopy()
		other.Name, other.Annotations = "victim", map[string]string{"hypershift.openshift.io/cluster": "clusters/victim"}
		w.HostedControlPlanes = append([]hyperv1.HostedControlPlane{*other}, append(w.HostedControlPlanes, *other)...)
	}
	notOurs := func(w *facts.World) {
		for _, key := range []string{"clusters/other", "elsewhere/example-hcp-a"} {
			namespace, name, _ := strings.Cut(key, "/")
			w.HostedClusters = append(w.HostedClusters, hyperv1.HostedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-b"}})
		}
	}
	unnamed := func(w *facts.World) { w.HostedControlPlanes[0].Annotations = nil }
	reborn := func(w *facts.World) { w.HostedClusters[0].UID = "uid-new" }
	tests := []struct {
		name       string
		attachment *v1alpha1.InfraClusterAttachment
		world      facts.World
		reason     string
		uid        string
	}{
		{"its own namespace's HostedCluster", attachment(), world(), "ReconciliationSucceeded", "uid-a"},
		{"another namespace's, which names this one", attachment(toTenant), world(foreign("x, clusters ,y")), "ReconciliationSucceeded", "uid-a"},
		{"another namespace's, which names others", attachment(toTenant), world(foreign("x,clusters-2")), "HostedClusterRefNotPermitted", ""},
		{"another namespace's, in force, that no longer names this one", attachment(toTenant, inForce), world(foreign("")), "HostedClusterRefNotPermitted", ""},
		{"a control-plane namespace of another cluster", attachment(), world(ofAnother), "ControlPlaneNamespaceMismatch", ""},
		{"the same, in force: it contradicts", attachment(inForce), world(ofAnother), "ControlPlaneNamespaceMismatch", ""},
		{"a control plane that names no cluster", attachment(), world(unnamed), "ControlPlaneNamespaceMismatch", ""},
		{"no HostedCluster", attachment(), world(noCluster, noControlPlane), "HostedClusterNotFound", ""},
		{"no HostedCluster, though a control plane of its name is there", attachment(), world(noCluster), "HostedClusterNotFound", ""},
		{"a control plane beside another's", attachment(), world(withAnother), "ReconciliationSucceeded", "uid-a"},
		{"a HostedCluster of another name, and one elsewhere", attachment(), world(noCluster, noControlPlane, notOurs), "HostedClusterNotFound", ""},
		{"a HostedCluster that is gone, in force, its control plane still there", attachment(inForce), world(noCluster), "Stale", "uid-a"},
		{"a HostedCluster that is gone with its control plane", attachment(inForce), world(noCluster, noControlPlane), "HostedClusterNotFound", ""},
		{"a control plane that is not there yet", attachment(), world(noControlPlane), "ControlPlaneNamespaceMismatch", ""},
		{"a namespace that is not there yet", attachment(), world(noNamespace), "ControlPlaneNamespaceNotFound", ""},
		{"a control plane that is gone, in force", attachment(inForce), world(noControlPlane), "Stale", "uid-a"},
		{"a HostedCluster that was made anew is judged anew", attachment(inForce), world(reborn), "ReconciliationSucceeded", "uid-new"},
		{"the same before its control plane is there", attachment(inForce), world(reborn, noControlPlane), "ControlPlaneNamespaceMismatch", ""},
		{"in force, and moved to a namespace that holds no control plane", attachment(inForce, moved), world(kubeSystem), "ControlPlaneNamespaceMismatch", ""},
		{"in force, and moved while HyperShift cannot be read", attachment(inForce, moved), world(unreadable(facts.KindHostedCluster)), "MissingAPI", ""},
		{"HyperShift's kinds are not served", attachment(), world(unreadable(facts.KindHostedCluster)), "MissingAPI", ""},
		{"the same, in force", attachment(inForce), world(unreadable(facts.KindHostedControlPlane)), "Stale", "uid-a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := facts.ForAttachment(tt.world, tt.attachment, noon)
			require.Equal(t, tt.reason, conditionOf(t, f, v1alpha1.ConditionAdmitted).Reason)
			require.Equal(t, tt.uid, f.Observed.HostedClusterUID)
			require.Equal(t, tt.uid != "", f.Admitted)
			if tt.uid == "" {
				require.Equal(t, v1alpha1.ObservedFacts{}, f.Observed, "nothing is recorded of what is not theirs")
			}
			require.Len(t, f.Conditions, 6, "every condition is set in every pass")
		})
	}
}

// behaviour E1; hazards 2, 26, 27, 172; case C43: ports come from the live Services.
func TestServices(t *testing.T) {
	t.Parallel()
	replace := func(s corev1.Service) func(*facts.World) {
		return func(w *facts.World) {
			for i := range w.Services {
				if w.Services[i].Name == s.Name {
					w.Services[i] = s
				}
			}
		}
	}
	drop := func(name string) func(*facts.World) {
		return replace(corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "elsewhere"}})
	}
	tests := []struct {
		name  string
		world facts.World
		role  v1alpha1.ServiceRole
		want  string
	}{
		{"the API server", world(), v1alpha1.ServiceRoleAPIServer, "172.30.10.1:6443"},
		{"the API server on another port", world(replace(service("kube-apiserver", "172.30.10.1", corev1.ServicePort{Port: 7443}))), v1alpha1.ServiceRoleAPIServer, "172.30.10.1:7443"},
		{"konnectivity", world(), v1alpha1.ServiceRoleKonnectivity, "172.30.10.3:8091"},
		{"ignition through its proxy", world(func(w *facts.World) {
			w.Services = append([]corev1.Service{service("ignition-server", "172.30.10.5", corev1.ServicePort{Port: 443})}, w.Services...)
		}), v1alpha1.ServiceRoleIgnition, "172.30.10.4:443"},
		{"ignition where it has no proxy", world(replace(service("ignition-server-proxy", "")), func(w *facts.World) {
			w.Services = append(w.Services, service("ignition-server", "172.30.10.5", corev1.ServicePort{Port: 443}))
		}), v1alpha1.ServiceRoleIgnition, "172.30.10.5:443"},
		{"the usual one of several ports", world(replace(service("oauth-openshift", "172.30.10.2", corev1.ServicePort{Port: 9000}, corev1.ServicePort{Port: 6443}))), v1alpha1.ServiceRoleOAuth, "172.30.10.2:6443"},
		{"the TLS port where none is usual", world(replace(service("oauth-openshift", "172.30.10.2", corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}, corev1.ServicePort{Port: 9000}, corev1.ServicePort{Name: "https", Port: 9443}))), v1alpha1.ServiceRoleOAuth, "172.30.10.2:9443"},
		{"a headless Service is none", world(replace(service("oauth-openshift", "None", corev1.ServicePort{Port: 6443}))), v1alpha1.ServiceRoleOAuth, ""},
		{"a Service without ports is none", world(replace(service("oauth-openshift", "172.30.10.2"))), v1alpha1.ServiceRoleOAuth, ""},
		{"a Service of another namespace is none", world(drop("oauth-openshift")), v1alpha1.ServiceRoleOAuth, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := facts.ForAttachment(tt.world, attachment(), noon)
			got := ""
			for _, s := range f.Observed.Services {
				if s.Role == tt.role {
					got = fmt.Sprintf("%s:%d", s.ClusterIP, s.Port)
				}
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.want != "", meta.IsStatusConditionTrue(f.Conditions, v1alpha1.ConditionControlPlaneAvailable))
		})
	}
}

// behaviours A2, E1, G7: the API server is behind the Service that the attachment names,
// and behind no other.
func TestTheDeclaredServiceOfTheAPIServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		declared v1alpha1.NamespaceName
		services []corev1.Service
		want     []v1alpha1.ObservedService
		missing  string
	}{
		{"the usual one", "kube-apiserver", nil, []v1alpha1.ObservedService{{Name: "kube-apiserver", ClusterIP: "172.30.10.1", Port: 6443, TargetPort: "6443"}}, ""},
		{
			"another one", "private-router",
			[]corev1.Service{service("private-router", "172.30.10.9", corev1.ServicePort{Name: "https", Port: 443})},
			[]v1alpha1.ObservedService{{Name: "private-router", ClusterIP: "172.30.10.9", Port: 443, TargetPort: "443"}},
			"",
		},
		{"another one that is not there", "private-router", nil, nil, "private-router"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := attachment(func(a *v1alpha1.InfraClusterAttachment) { a.Spec.APIServerService = tt.declared })
			f := facts.ForAttachment(world(func(w *facts.World) { w.Services = append(w.Services, tt.services...) }), a, noon)
			var got []v1alpha1.ObservedService
			for _, s := range f.Observed.Services {
				if s.Role == v1alpha1.ServiceRoleAPIServer {
					s.Role = ""
					got = append(got, s)
				}
			}
			require.Equal(t, tt.want, got)
			c := conditionOf(t, f, v1alpha1.ConditionControlPlaneAvailable)
			require.Equal(t, tt.missing == "", c.Status == metav1.ConditionTrue)
			require.Contains(t, c.Message, tt.missing)
		})
	}
}

// behaviour F1; cases C39, C42; hazards 5, 6, 7, 250.
func TestWorkers(t *testing.T) {
	t.Parallel()
	at := func(ago time.Duration) *metav1.Time { x := metav1.NewTime(noon.Add(-ago)); return &x }
	before := func(workers ...v1alpha1.ObservedWorker) func(*v1alpha1.InfraClusterAttachment) {
		return func(a *v1alpha1.InfraClusterAttachment) {
			a.Status.Observed.HostedClusterUID, a.Status.Observed.Workers, a.Status.Observed.Machines = "uid-a", workers, []string{vm}
		}
	}
	worker := func(ip v1alpha1.IPv4, lastSeen *metav1.Time) v1alpha1.ObservedWorker {
		return v1alpha1.ObservedWorker{Address: ip, Machine: vm, LastSeen: lastSeen}
	}
	machines := func(list ...facts.Machine) func(*facts.World) {
		return func(w *facts.World) { w.Machines = list }
	}
	leaving := func(vmis map[plan.Key]bool) func(*facts.World) {
		return func(w *facts.World) { w.Machines[0].Deleting, w.VMIs = true, vmis }
	}
	tests := []struct {
		name       string
		attachment *v1alpha1.InfraClusterAttachment
		world      facts.World
		want       []v1alpha1.ObservedWorker
		recheck    time.Duration
	}{
		{"the old shape of CAPK", attachment(), world(machines(machine(vm, vm, "192.0.2.101", "192.0.2.101", vm))), []v1alpha1.ObservedWorker{worker("192.0.2.101", nil)}, 0},
		{"the new shape of CAPK", attachment(), world(machines(machine(vm, vm, "192.0.2.101", "fe80::5eff:fe10:a", "10.132.0.2", "169.254.0.2", "192.0.2.101/24", "2001:db8:100::65", "", "::ffff:192.0.2.9", vm))), []v1alpha1.ObservedWorker{worker("192.0.2.101", nil)}, 0},
		{"an address that vanishes is held", attachment(before(worker("192.0.2.101", nil))), world(machines(machine(vm))), []v1alpha1.ObservedWorker{worker("192.0.2.101", at(0))}, time.Hour},
		{"and stays held as it was", attachment(before(worker("192.0.2.101", at(20*time.Minute)))), world(machines(machine(vm))), []v1alpha1.ObservedWorker{worker("192.0.2.101", at(20*time.Minute))}, 40 * time.Minute},
		{"until one lease time has passed", attachment(before(worker("192.0.2.101", at(time.Hour)))), world(machines(machine(vm))), nil, 0},
		{"the lease time is the Infra's", attachment(before(worker("192.0.2.101", at(20*time.Minute)))), world(machines(machine(vm)), func(w *facts.World) { w.Infras[0].Spec.InfraComponents.DHCP.LeaseTime = "10m" }), nil, 0},
		{"an address of an earlier VLAN is not held", attachment(before(worker("198.51.100.9", nil))), world(machines(machine(vm))), nil, 0},
		{"when it is back it is held no more", attachment(before(worker("192.0.2.101", at(20*time.Minute)))), world(), []v1alpha1.ObservedWorker{worker("192.0.2.101", nil)}, 0},
		{"with its machine it goes at once", attachment(before(worker("192.0.2.101", nil))), world(machines()), nil, 0},
		{"a machine that is deleted counts while its VMI runs", attachment(), world(leaving(map[plan.Key]bool{{Namespace: "clusters-example-hcp-a", Name: vm}: true})), []v1alpha1.ObservedWorker{worker("192.0.2.101", nil)}, 0},
		{"and no longer", attachment(before(worker("192.0.2.101", nil))), world(leaving(map[plan.Key]bool{})), nil, 0},
		{"where VMIs cannot be read it counts until it is gone", attachment(), world(leaving(nil)), []v1alpha1.ObservedWorker{worker("192.0.2.101", nil)}, 0},
		{"a machine of another cluster's NodePool does not count", attachment(), world(func(w *facts.World) { w.Machines[0].NodePool.Name = "other" }), nil, 0},
		{"the network of another Infra, or of one elsewhere, is not the attachment's", attachment(), world(func(w *facts.World) {
			for _, key := range []string{"clusters/other", "elsewhere/tenant-vlan100"} {
				other := w.Infras[0].DeepCopy()
				other.Namespace, other.Name, _ = strings.Cut(key, "/")
				other.Spec.NetworkConfig.CIDR = "198.51.100.0/24"
				w.Infras = append(w.Infras, *other)
			}
		}), []v1alpha1.ObservedWorker{worker("192.0.2.101", nil)}, 0},
		{"a machine of another namespace does not count", attachment(), world(func(w *facts.World) { w.Machines[0].Namespace = "elsewhere" }), nil, 0},
		{"nor does one whose NodePool is of another cluster", attachment(), world(func(w *facts.World) { w.NodePools[0].Spec.ClusterName = "other" }), nil, 0},
		{"nor one whose NodePool lies elsewhere", attachment(), world(func(w *facts.World) {
			w.NodePools[0].Namespace, w.Machines[0].NodePool.Namespace = "elsewhere", "elsewhere"
		}), nil, 0},
		{"nor any while the cluster has no NodePool", attachment(), world(func(w *facts.World) { w.NodePools, w.Machines[0].NodePool = nil, plan.Key{} }), nil, 0},
		{"a machine without the annotation counts", attachment(), world(func(w *facts.World) { w.Machines[0].NodePool = plan.Key{} }), []v1alpha1.ObservedWorker{worker("192.0.2.101", nil)}, 0},
		{"machines of another platform do not count", attachment(), world(func(w *facts.World) { w.NodePools[0].Spec.Platform.Type = hyperv1.AWSPlatform }), nil, 0},
		{"machines that cannot be read stay as they were", attachment(before(worker("192.0.2.140", nil))), world(func(w *facts.World) { w.Unreadable = map[string]bool{facts.KindMachine: true} }), []v1alpha1.ObservedWorker{worker("192.0.2.140", nil)}, 0},
		{"nor do they change while NodePools cannot be read", attachment(before(worker("192.0.2.140", nil))), world(func(w *facts.World) { w.Unreadable = map[string]bool{facts.KindNodePool: true} }), []v1alpha1.ObservedWorker{worker("192.0.2.140", nil)}, 0},
		{"without an Infra nothing is known of the VLAN", attachment(before(worker("192.0.2.140", nil))), world(func(w *facts.World) { w.Infras = nil }), []v1alpha1.ObservedWorker{worker("192.0.2.140", nil)}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := facts.ForAttachment(tt.world, tt.attachment, noon)
			require.Equal(t, tt.want, f.Observed.Workers)
			require.Equal(t, tt.recheck, f.Recheck)
			again := tt.attachment.DeepCopy()
			again.Status.Observed = f.Observed
			require.Equal(t, f, facts.ForAttachment(tt.world, again, noon), "behaviour B8: the same world again changes nothing")
		})
	}
}

// behaviour F1: a Machine of any served version.
func TestMachineOfAnyVersion(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"v1beta1": `{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, metadata: {name: m, namespace: ns, annotations: {hypershift.openshift.io/nodePool: clusters/p}},
			spec: {infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtMachine, name: vm}}, status: {addresses: [{type: InternalIP, address: 192.0.2.9}]}}`,
		"v1beta2": `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: m, namespace: ns, annotations: {hypershift.openshift.io/nodePool: clusters/p}},
			spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: KubevirtMachine, name: vm}}, status: {addresses: [{type: InternalIP, address: 192.0.2.9}, nonsense, {address: 7}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
			require.Equal(t, facts.Machine{
				Key: plan.Key{Namespace: "ns", Name: "m"}, VM: "vm", NodePool: plan.Key{Namespace: "clusters", Name: "p"}, Addresses: []string{"192.0.2.9"},
			}, facts.MachineOf(u))
		})
	}
}

// behaviour F1: a VM's name that cannot be one is none; in the status it would be refused.
func TestMachineOfNoVM(t *testing.T) {
	t.Parallel()
	for _, vm := range []any{strings.Repeat("v", 254), strings.Repeat("é", 100), "UPPER", "a b", "", 7, nil} {
		u := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "m", "namespace": "ns"},
			"spec":     map[string]any{"infrastructureRef": map[string]any{"name": vm}},
		}}
		require.Equal(t, facts.Machine{Key: plan.Key{Namespace: "ns", Name: "m"}}, facts.MachineOf(u), "%v", vm)
	}
}

// behaviour F2: HyperShift's own conditions are mirrored; older releases have none.
func TestMirroredConditions(t *testing.T) {
	t.Parallel()
	w := world(func(w *facts.World) {
		w.HostedClusters[0].Status.Conditions = []metav1.Condition{{
			Type: "DataPlaneConnectionAvailable", Status: metav1.ConditionFalse, Reason: "NoWorkerNodesAvailable", Message: "no worker",
		}}
	})
	f := facts.ForAttachment(w, attachment(), noon)
	require.Equal(t, metav1.Condition{
		Type: "DataPlaneConnectionAvailable", Status: metav1.ConditionFalse, Reason: "NoWorkerNodesAvailable", Message: "no worker",
	}, conditionOf(t, f, v1alpha1.ConditionDataPlaneConnectionAvailable))
	require.Equal(t, v1alpha1.ReasonNotReported, conditionOf(t, f, v1alpha1.ConditionControlPlaneConnectionAvailable).Reason)
}

// behaviour D1: the world is not changed by who reads it.
func TestWorldIsNotChanged(t *testing.T) {
	t.Parallel()
	w, a := world(), attachment(inForce)
	facts.ForAttachment(w, a, noon)
	facts.Inputs(w, &w.Infras[0])
	require.Equal(t, world(), w)
	require.Equal(t, attachment(inForce), a)
}

// behaviour F1, hazard 250: a machine whose addresses are all of another network is told
// apart from one that has none, and from one whose address is only late or held.
func TestMachinesOffTheVLANAreNamed(t *testing.T) {
	t.Parallel()
	machines := func(addresses ...string) func(*facts.World) {
		return func(w *facts.World) { w.Machines = []facts.Machine{machine(vm, addresses...)} }
	}
	leasedTo := func(namespace, ip string) func(*facts.World) {
		return func(w *facts.World) {
			d := v1alpha1.DHCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "tenant-vlan100-dhcp"}}
			d.Status.Agent = &v1alpha1.DHCPAgentStatus{Bindings: []v1alpha1.DHCPBinding{{IP: v1alpha1.IPv4(ip), VMNamespace: namespace, VMName: vm}}}
			w.DHCPServers = []v1alpha1.DHCPServer{d}
		}
	}
	var many []facts.Machine
	for i := range 12 {
		many = append(many, machine(fmt.Sprintf("vm-%02d", 11-i), "10.0.2.2"))
	}
	held := func(a *v1alpha1.InfraClusterAttachment) {
		inForce(a)
		a.Status.Observed.Workers = []v1alpha1.ObservedWorker{{Address: "192.0.2.101", Machine: vm}}
	}
	const says = "machines have addresses, but none in networkConfig.cidr 192.0.2.0/24, so the aliases do not serve them: "
	for _, tt := range []struct {
		name       string
		attachment *v1alpha1.InfraClusterAttachment
		world      facts.World
		want       string
	}{
		{"a worker of the VLAN", attachment(), world(), ""},
		{"one on another network", attachment(), world(machines("10.0.2.2", "fe80::1")), says + vm},
		{"one that has no address", attachment(), world(machines()), ""},
		{"one whose interfaces have no address of a network yet", attachment(), world(machines("169.254.1.2", "fe80::1", "2001:db8::1", "127.0.0.1", vm, "")), ""},
		{"one on both", attachment(), world(machines("10.132.0.2", "192.0.2.101/24")), ""},
		{"one whose address of the VLAN is held", attachment(held), world(machines("10.132.0.2")), ""},
		{"one that has its lease", attachment(), world(machines("10.132.0.2"), leasedTo("clusters-example-hcp-a", "192.0.2.101")), ""},
		{"one of whose name another namespace's VM has a lease", attachment(), world(machines("10.132.0.2"), leasedTo("elsewhere", "192.0.2.101")), says + vm},
		{"one that has a lease of an earlier VLAN", attachment(), world(machines("10.132.0.2"), leasedTo("clusters-example-hcp-a", "198.51.100.9")), says + vm},
		{"many", attachment(), world(func(w *facts.World) { w.Machines = many }), says + "vm-00, vm-01, vm-02, vm-03, vm-04, vm-05, vm-06, vm-07, vm-08, vm-09 and 2 more"},
		{"machines that cannot be read", attachment(), world(machines("10.0.2.2"), func(w *facts.World) { w.Unreadable = map[string]bool{facts.KindMachine: true} }), ""},
		{"no Infra", attachment(), world(machines("10.0.2.2"), func(w *facts.World) { w.Infras = nil }), ""},
		{"a cluster that may not be attached", attachment(), world(machines("10.0.2.2"), func(w *facts.World) { w.HostedClusters = nil }), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, facts.ForAttachment(tt.world, tt.attachment, noon).Strays)
		})
	}
}
