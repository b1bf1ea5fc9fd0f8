package render_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/images"
	"github.com/densityops/oooi/operator/internal/render"
)

// options of an operator without OpenShift.
func options(change ...func(*render.Options)) render.Options {
	o := render.Options{
		SCC: render.SCCReference, Fence: true, Hub: "oooi-hub.oooi-system.svc:8443", HubIP: "172.30.20.3", HubCA: []byte("CA"),
		Images: images.For(func(string) (string, bool) { return "", false }), Snapshot: []byte("snapshot"),
	}
	for _, f := range change {
		f(&o)
	}
	return o
}

// owned is the metadata of an Infra's child.
func owned(infra, component string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Namespace: "clusters", Name: infra + "-" + component,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Infra", Name: infra, Controller: &yes}},
	}
}

func dhcp(meta metav1.ObjectMeta) *v1alpha1.DHCPServer {
	d := &v1alpha1.DHCPServer{ObjectMeta: meta}
	d.Spec.NetworkConfig = v1alpha1.DHCPNetworkConfig{CIDR: "192.0.2.0/24", ServerIP: "192.0.2.2", NetworkAttachmentName: "vlan100"}
	return d
}

func dns(meta metav1.ObjectMeta) *v1alpha1.DNSServer {
	d := &v1alpha1.DNSServer{ObjectMeta: meta}
	d.Spec.NetworkConfig = v1alpha1.DNSNetworkConfig{CIDR: "192.0.2.0/24", ServerIP: "192.0.2.3", NetworkAttachmentName: "vlan100"}
	return d
}

func proxy(meta metav1.ObjectMeta) *v1alpha1.ProxyServer {
	p := &v1alpha1.ProxyServer{ObjectMeta: meta}
	p.Spec.NetworkConfig = v1alpha1.ProxyNetworkConfig{CIDR: "192.0.2.0/24", ServerIP: "192.0.2.4", NetworkAttachmentName: "vlan100"}
	return p
}

// stacks are the three workloads of an Infra.
func stacks(o render.Options) map[string][]render.Object {
	return map[string][]render.Object{
		render.ComponentDHCP:  render.DHCP(dhcp(owned("infra", "dhcp")), o),
		render.ComponentDNS:   render.DNS(dns(owned("infra", "dns")), o),
		render.ComponentProxy: render.Proxy(proxy(owned("infra", "proxy")), o),
	}
}

// only is the one object of a type.
func only[T render.Object](t *testing.T, objects []render.Object) T {
	t.Helper()
	found := every[T](objects)
	require.Len(t, found, 1)
	return found[0]
}

func every[T render.Object](objects []render.Object) []T {
	var out []T
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			out = append(out, typed)
		}
	}
	return out
}

// containers of a pod, the init containers first.
func containers(spec corev1.PodSpec) []corev1.Container {
	return append(slices.Clone(spec.InitContainers), spec.Containers...)
}

// exceptions from Pod Security's restricted profile, each with its reason: dhcpd
// sends raw frames (behaviour C8), the fence sets packet filter rules as root
// (behaviour B5). Nothing else.
var exceptions = map[string][]corev1.Capability{"dhcpd": {"NET_RAW"}, "fence": {"NET_ADMIN"}}

// behaviours B2, B4, B5, E13; hazard 181.
func TestPodsKeepToTheRestrictedProfile(t *testing.T) {
	t.Parallel()
	for name, objects := range stacks(options()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := only[*appsv1.Deployment](t, objects).Spec.Template.Spec
			require.False(t, spec.HostNetwork || spec.HostPID || spec.HostIPC)
			require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
			require.True(t, *spec.SecurityContext.RunAsNonRoot)
			require.Equal(t, []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}, spec.SecurityContext.Sysctls, "a safe sysctl")
			for _, v := range spec.Volumes {
				require.True(t, v.ConfigMap != nil || v.EmptyDir != nil || v.Projected != nil, "volume %s is of a type that the profile refuses", v.Name)
			}
			for _, c := range containers(spec) {
				s := c.SecurityContext
				require.False(t, *s.AllowPrivilegeEscalation, c.Name)
				require.Nil(t, s.Privileged, c.Name)
				require.True(t, *s.ReadOnlyRootFilesystem, c.Name)
				require.Equal(t, []corev1.Capability{"ALL"}, s.Capabilities.Drop, c.Name)
				require.Equal(t, exceptions[c.Name], s.Capabilities.Add, c.Name)
				require.Equal(t, c.Name == "fence", s.RunAsUser != nil && *s.RunAsUser == 0, "%s runs as root", c.Name)
				require.Empty(t, hostPorts(c), c.Name)
				require.NotEmpty(t, c.Resources.Requests, c.Name)
				require.NotEmpty(t, c.Resources.Limits, c.Name)
			}
		})
	}
}

func hostPorts(c corev1.Container) []int32 {
	var out []int32
	for _, p := range c.Ports {
		if p.HostPort != 0 {
			out = append(out, p.HostPort)
		}
	}
	return out
}

// behaviour B4; hazards 183, 243.
func TestOnePodAtATime(t *testing.T) {
	t.Parallel()
	for name, objects := range stacks(options()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := only[*appsv1.Deployment](t, objects)
			require.Equal(t, int32(1), *d.Spec.Replicas)
			require.Equal(t, appsv1.RecreateDeploymentStrategyType, d.Spec.Strategy.Type)
			spec := d.Spec.Template.Spec
			require.Equal(t, "system-cluster-critical", spec.PriorityClassName)
			require.LessOrEqual(t, *spec.TerminationGracePeriodSeconds, int64(30))
			seconds := map[string]int64{}
			for _, toleration := range spec.Tolerations {
				seconds[toleration.Key] = *toleration.TolerationSeconds
			}
			require.Equal(t, map[string]int64{"node.kubernetes.io/unreachable": 10, "node.kubernetes.io/not-ready": 60}, seconds)
			for _, o := range objects {
				require.NotContains(t, o.GetObjectKind().GroupVersionKind().Kind, "PodDisruptionBudget")
			}
			for _, c := range spec.Containers {
				for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
					if p != nil {
						require.Empty(t, p.HTTPGet.Host, "probes ask the pod IP")
					}
				}
			}
		})
	}
}

// behaviours B4, B12: a token is where it is needed, and nowhere else.
func TestTokensAreWhereTheyAreNeeded(t *testing.T) {
	t.Parallel()
	allowed := []string{"dhcpd", "coredns", "xds-manager"}
	for name, objects := range stacks(options()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := only[*appsv1.Deployment](t, objects).Spec.Template.Spec
			require.False(t, *spec.AutomountServiceAccountToken)
			require.False(t, *only[*corev1.ServiceAccount](t, objects).AutomountServiceAccountToken)
			for _, c := range containers(spec) {
				for _, m := range c.VolumeMounts {
					if m.Name == "hub-token" || m.Name == "api-access" {
						require.Contains(t, allowed, c.Name)
					}
				}
			}
		})
	}
}

// behaviours B4, B1; hazard 211: two Infras of one namespace, and two children of
// one name, never select each other's pods.
func TestSelectorsNeverMeet(t *testing.T) {
	t.Parallel()
	standalone := metav1.ObjectMeta{Namespace: "clusters", Name: "vlan"}
	var all []*appsv1.Deployment
	for _, objects := range [][]render.Object{
		render.DHCP(dhcp(owned("one", "dhcp")), options()), render.DHCP(dhcp(owned("two", "dhcp")), options()),
		render.DNS(dns(owned("one", "dns")), options()), render.Proxy(proxy(owned("one", "proxy")), options()),
		render.DHCP(dhcp(standalone), options()), render.DNS(dns(standalone), options()), render.Proxy(proxy(standalone), options()),
	} {
		all = append(all, every[*appsv1.Deployment](objects)...)
	}
	for i, a := range all {
		selector, err := metav1.LabelSelectorAsSelector(a.Spec.Selector)
		require.NoError(t, err)
		for j, b := range all {
			require.Equal(t, i == j, selector.Matches(labelsOf(b)), "%s selects the pods of %s", a.Name, b.Name)
			require.Equal(t, i == j, a.Name == b.Name, "two workloads share the name %s", a.Name)
		}
		for _, key := range []string{render.LabelComponent, render.LabelInstance, render.LabelInfra} {
			require.Contains(t, a.Spec.Selector.MatchLabels, key)
		}
	}
}

type labelSet map[string]string

func (l labelSet) Has(key string) bool              { _, found := l[key]; return found }
func (l labelSet) Get(key string) string            { return l[key] }
func (l labelSet) Lookup(key string) (string, bool) { v, found := l[key]; return v, found }

func labelsOf(d *appsv1.Deployment) labelSet { return d.Spec.Template.Labels }

// behaviour B6: every object carries its child's labels.
func TestEveryObjectCarriesItsIdentity(t *testing.T) {
	t.Parallel()
	o := options(func(o *render.Options) { o.OpenShift = true })
	check := func(t *testing.T, child render.Object, objects []render.Object) {
		t.Helper()
		for _, object := range objects {
			for key, value := range render.Identity(child) {
				require.Equal(t, value, object.GetLabels()[key], "%T %s lacks %s", object, object.GetName(), key)
			}
			require.NotEmpty(t, object.GetObjectKind().GroupVersionKind().Kind)
			if _, is := object.(*corev1.Service); is {
				require.LessOrEqual(t, len(object.GetName()), 63)
			}
		}
	}
	long := strings.Repeat("x", 48)
	for _, meta := range []metav1.ObjectMeta{owned("infra", "dhcp"), owned(long, "dhcp"), {Namespace: strings.Repeat("n", 63), Name: strings.Repeat("y", 56)}} {
		child := dhcp(meta)
		child.Spec.VMINamespaces = []string{"clusters", "clusters-a"}
		check(t, child, render.DHCP(child, o))
	}
	check(t, dns(owned("infra", "dns")), render.DNS(dns(owned("infra", "dns")), o))
	check(t, proxy(owned("infra", "proxy")), render.Proxy(proxy(owned("infra", "proxy")), o))
}

// behaviour B3: a JSON encoder makes the annotation.
func TestNetworksAnnotation(t *testing.T) {
	t.Parallel()
	child := dns(owned("infra", "dns"))
	child.Spec.NetworkConfig.NetworkAttachmentName = `x","interface":"eth0`
	text := only[*appsv1.Deployment](t, render.DNS(child, options())).Spec.Template.Annotations["k8s.v1.cni.cncf.io/networks"]
	var got []map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Equal(t, []map[string]any{{
		"name": `x","interface":"eth0`, "namespace": "clusters", "ips": []any{"192.0.2.3/24"}, "interface": "vlan0",
	}}, got)
}

// behaviour B2: the SCC of each mode.
func TestSCC(t *testing.T) {
	t.Parallel()
	openShift := func(o *render.Options) { o.OpenShift = true }
	minimal := func(o *render.Options) { o.OpenShift, o.SCC, o.Fence = true, render.SCCMinimal, false }
	tests := []struct {
		name    string
		options render.Options
		want    map[string]string
		given   map[string]bool
	}{
		{"without OpenShift", options(), map[string]string{}, map[string]bool{}},
		{"as the reference says", options(openShift), map[string]string{
			"dhcp": "system:openshift:scc:privileged", "dns": "system:openshift:scc:anyuid", "proxy": "system:openshift:scc:privileged",
		}, map[string]bool{}},
		{"minimal", options(minimal), map[string]string{"dhcp": "oooi-dhcpd"}, map[string]bool{"dns": true, "proxy": true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, given := map[string]string{}, map[string]bool{}
			for name, objects := range stacks(tt.options) {
				for _, b := range every[*rbacv1.RoleBinding](objects) {
					if strings.HasSuffix(b.Name, "-scc") {
						got[name] = b.RoleRef.Name
						require.Equal(t, "clusters", b.Namespace)
					}
				}
				s := only[*appsv1.Deployment](t, objects).Spec.Template.Spec.SecurityContext
				if s.RunAsUser == nil {
					given[name] = true
					require.Nil(t, s.RunAsGroup)
					require.Nil(t, s.FSGroup)
				}
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.given, given, "restricted-v2 gives the user itself")
		})
	}
}

// behaviour B5: which SCC admits the fence.
func TestFenceIsAdmitted(t *testing.T) {
	t.Parallel()
	reference := options(func(o *render.Options) { o.OpenShift = true })
	minimal := options(func(o *render.Options) { o.OpenShift, o.SCC = true, render.SCCMinimal })
	got := map[string][3]bool{}
	for _, c := range []string{render.ComponentDHCP, render.ComponentDNS, render.ComponentProxy} {
		got[c] = [3]bool{render.AllowsFence(c, options()), render.AllowsFence(c, reference), render.AllowsFence(c, minimal)}
	}
	require.Equal(t, map[string][3]bool{"dhcp": {true, true, false}, "dns": {true, false, false}, "proxy": {true, true, false}}, got)
	for name, objects := range stacks(options(func(o *render.Options) { o.Fence = false })) {
		spec := only[*appsv1.Deployment](t, objects).Spec.Template.Spec
		for _, c := range containers(spec) {
			require.NotEqual(t, "fence", c.Name, name)
		}
		require.Contains(t, spec.Containers[0].Env, corev1.EnvVar{Name: "OOOI_FENCE", Value: "off"}, "the agent is told")
	}
}

// behaviour A8: field, else environment, else default; each image alone.
func TestImagePrecedence(t *testing.T) {
	t.Parallel()
	imagesOf := func(o render.Options, field string) map[string]string {
		d, n, p := dhcp(owned("infra", "dhcp")), dns(owned("infra", "dns")), proxy(owned("infra", "proxy"))
		if field != "" {
			d.Spec.Image, n.Spec.Image, p.Spec.ProxyImage, p.Spec.ManagerImage = field, field, field, field
		}
		out := map[string]string{}
		for _, objects := range [][]render.Object{render.DHCP(d, o), render.DNS(n, o), render.Proxy(p, o)} {
			for _, c := range containers(deploymentOf(objects).Spec.Template.Spec) {
				out[c.Name] = c.Image
			}
		}
		return out
	}
	builtin := imagesOf(options(), "")
	require.Equal(t, images.DefaultEnvoy, builtin["envoy"])
	require.Equal(t, "docker.io/envoyproxy/envoy:v1.36.4", images.DefaultEnvoy)
	for env, container := range map[string][]string{
		images.EnvDHCPD: {"dhcpd"}, images.EnvCoreDNS: {"coredns"}, images.EnvEnvoy: {"envoy"}, images.EnvXDSManager: {"xds-manager", "bootstrap"}, images.EnvFence: {"fence"},
	} {
		o := options(func(o *render.Options) {
			o.Images = images.For(func(name string) (string, bool) {
				if name == env {
					return "mirror.example.com/x@sha256:0", true
				}
				return "", true // set, and empty
			})
		})
		for name, image := range imagesOf(o, "") {
			want := builtin[name]
			if slices.Contains(container, name) {
				want = "mirror.example.com/x@sha256:0"
			}
			require.Equal(t, want, image, "%s with %s", name, env)
		}
		for name, image := range imagesOf(o, "field.example.com/y:1") {
			if name != "fence" {
				require.Equal(t, "field.example.com/y:1", image, "%s: the field comes first", name)
			}
		}
	}
}

func deploymentOf(objects []render.Object) *appsv1.Deployment {
	return every[*appsv1.Deployment](objects)[0]
}

// behaviour A4: what the administrator decides about a pod.
func TestPlacement(t *testing.T) {
	t.Parallel()
	child := proxy(owned("infra", "proxy"))
	child.Spec.Placement = &v1alpha1.Placement{
		NodeSelector: map[string]string{"vlan100": "true"}, Tolerations: []corev1.Toleration{{Key: "vlan", Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, PriorityClassName: "tenants",
	}
	child.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mirror"}}
	child.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2500m")}}
	child.Spec.LogLevel = "debug"
	spec := only[*appsv1.Deployment](t, render.Proxy(child, options())).Spec.Template.Spec
	require.Equal(t, "tenants", spec.PriorityClassName)
	require.Equal(t, map[string]string{"vlan100": "true"}, spec.NodeSelector)
	require.Len(t, spec.Tolerations, 3, "ours stay")
	require.NotNil(t, spec.Affinity)
	require.Equal(t, child.Spec.ImagePullSecrets, spec.ImagePullSecrets)
	envoy := spec.Containers[1]
	require.Equal(t, *child.Spec.Resources, envoy.Resources)
	require.Equal(t, "3", envoy.Args[slices.Index(envoy.Args, "--concurrency")+1], "behaviour E7: workers by the CPU limit")
	require.Equal(t, "debug", envoy.Args[slices.Index(envoy.Args, "--log-level")+1])
}

// behaviour B13; hazards 205, 207, 220: what is not the pod's business changes no
// template: leases, routes, names, the CA.
func TestTemplateDependsOnItsInputsAlone(t *testing.T) {
	t.Parallel()
	template := func(objects []render.Object) string {
		text, err := json.Marshal(deploymentOf(objects).Spec.Template)
		require.NoError(t, err)
		return string(text)
	}
	before, after := options(), options(func(o *render.Options) { o.HubCA, o.Snapshot = []byte("new CA"), []byte("new") })
	d := dhcp(owned("infra", "dhcp"))
	d2 := d.DeepCopy()
	d2.Spec.LeaseConfig.RangeEnd, d2.Spec.VMINamespaces, d2.Spec.NetworkConfig.Gateway, d2.Generation = "192.0.2.9", []string{"*"}, "192.0.2.9", 9
	require.Equal(t, template(render.DHCP(d, before)), template(render.DHCP(d2, after)))
	n := dns(owned("infra", "dns"))
	n2 := n.DeepCopy()
	n2.Spec.Records, n2.Spec.UpstreamServers, n2.Spec.TTLSeconds = []v1alpha1.DNSRecord{{Name: "x"}}, []v1alpha1.Upstream{"resolv.conf"}, 5
	require.Equal(t, template(render.DNS(n, before)), template(render.DNS(n2, after)))
	p := proxy(owned("infra", "proxy"))
	p2 := p.DeepCopy()
	p2.Spec.Backends, p2.Spec.ExternalListeners = []v1alpha1.ProxyBackend{{Name: "x", Port: 8080, PodSide: true}}, []v1alpha1.ProxyExternalListener{{Name: "a", Port: 20000}}
	require.Equal(t, template(render.Proxy(p, before)), template(render.Proxy(p2, after)))
	p3 := p.DeepCopy()
	p3.Spec.NetworkConfig.ServerIP = "192.0.2.5"
	require.NotEqual(t, template(render.Proxy(p, before)), template(render.Proxy(p3, before)))
}

// behaviour D1: the Services' ports.
func TestServicePorts(t *testing.T) {
	t.Parallel()
	child := proxy(owned("infra", "proxy"))
	child.Spec.Backends = []v1alpha1.ProxyBackend{
		{Name: "a", Port: 8443, PodSide: true},
		{Name: "b", Port: 80, PodSide: true},
		{Name: "c", Port: 80, PodSide: true},
		{Name: "d", Port: 443, PodSide: true},
		{Name: "e", Port: 8080},
	}
	s := only[*corev1.Service](t, render.Proxy(child, options()))
	require.Equal(t, "infra-proxy", s.Name)
	var got []string
	for _, p := range s.Spec.Ports {
		got = append(got, p.Name+"="+p.TargetPort.String())
	}
	require.Equal(t, []string{"https=443", "api=6443", "http=80", "port-8443=8443", "stats=9901"}, got)
	require.Equal(t, "infra-dns", only[*corev1.Service](t, render.DNS(dns(owned("infra", "dns")), options())).Name)
}

// behaviour B12: an account touches its own resource's status, and dhcpd one Lease.
func TestAgentRights(t *testing.T) {
	t.Parallel()
	child := dhcp(owned("infra", "dhcp"))
	child.Spec.VMINamespaces = []string{"clusters-a", "clusters", "clusters-a"}
	objects := render.DHCP(child, options())
	role := only[*rbacv1.Role](t, objects)
	for _, rule := range role.Rules {
		require.Equal(t, []string{"infra-dhcp"}, rule.ResourceNames)
		require.NotContains(t, rule.Verbs, "*")
		require.NotContains(t, rule.Verbs, "list")
	}
	var bound []string
	for _, b := range every[*rbacv1.RoleBinding](objects) {
		bound = append(bound, b.Namespace+": "+b.RoleRef.Kind+" "+b.RoleRef.Name)
		require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "clusters", Name: "infra-dhcp"}}, b.Subjects)
	}
	require.Equal(t, []string{"clusters: Role infra-dhcp", "clusters: ClusterRole oooi-vmi-reader", "clusters-a: ClusterRole oooi-vmi-reader"}, bound)

	child.Spec.VMINamespaces = []string{"clusters", "*"}
	everywhere := render.DHCP(child, options())
	require.Len(t, every[*rbacv1.RoleBinding](everywhere), 1)
	require.Equal(t, "oooi-vmi-reader", only[*rbacv1.ClusterRoleBinding](t, everywhere).RoleRef.Name, "the whole cluster only for *")
}
