package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

const (
	// userID is the user of our images.
	userID = 65532
	// hubAudience of the token that opens a child's stream.
	hubAudience = "oooi-hub"
	// defaultPriorityClass exists in every cluster: who loses DHCP, DNS or the
	// API loses everything behind it.
	defaultPriorityClass = "system-cluster-critical"

	portManager = 9090
	portDHCP    = 9091
	portHealth  = 9092
	portReady   = 9093
	portMetrics = 9094
	portStats   = 9901
)

// vlan is a child's place on its VLAN.
type vlan struct {
	nad       string
	namespace string
	serverIP  v1alpha1.IPv4
	cidr      v1alpha1.IPv4CIDR
}

// networks is the Multus annotation; a JSON encoder makes it, so that no name
// can break out of it (behaviour B3).
func (v vlan) networks(own string) string {
	namespace := v.namespace
	if namespace == "" {
		namespace = own
	}
	_, bits, _ := strings.Cut(string(v.cidr), "/")
	text, err := json.Marshal([]struct {
		Name      string   `json:"name"`
		Namespace string   `json:"namespace"`
		IPs       []string `json:"ips"`
		Interface string   `json:"interface"`
	}{{v.nad, namespace, []string{string(v.serverIP) + "/" + bits}, VLANInterface}})
	if err != nil {
		return "[]" // strings always encode
	}
	return string(text)
}

// workload is a child whose objects are rendered.
type workload struct {
	child     metav1.Object
	component string
	name      string
	o         Options
	pod       v1alpha1.PodConfig
	vlan      vlan
}

func newWorkload(child metav1.Object, o Options, pod v1alpha1.PodConfig, v vlan) *workload {
	c := component(child)
	return &workload{child: child, component: c, name: WorkloadName(child.GetName(), c), o: o, pod: pod, vlan: v}
}

// meta of an object of the workload in the child's namespace.
func (w *workload) meta(name string) metav1.ObjectMeta {
	labels := objectLabels(w.child)
	labels[LabelOwnerNamespace] = w.child.GetNamespace()
	return metav1.ObjectMeta{Name: name, Namespace: w.child.GetNamespace(), Labels: labels}
}

func (w *workload) selector() map[string]string {
	return selector(w.component, w.child.GetName(), infraOf(w.child))
}

// deployment of the pod: one replica, and never two at once, which would both
// own the address (behaviour B4).
func (w *workload) deployment(spec corev1.PodSpec) *appsv1.Deployment {
	one := int32(1)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: w.meta(w.name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &one,
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: w.selector()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      objectLabels(w.child),
					Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": w.vlan.networks(w.child.GetNamespace())},
				},
				Spec: spec,
			},
		},
	}
}

// podSpec is what the three pods have in common.
func (w *workload) podSpec(grace int64) corev1.PodSpec {
	yes, no := true, false
	spec := corev1.PodSpec{
		ServiceAccountName: w.name, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		TerminationGracePeriodSeconds: &grace, PriorityClassName: defaultPriorityClass, Tolerations: tolerations(),
		ImagePullSecrets: w.pod.ImagePullSecrets,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   &yes,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			// A safe sysctl: with it no capability is needed for ports below 1024.
			Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
		},
		Volumes: w.volumes(),
	}
	if !w.o.givenIDs(w.component) {
		id := int64(userID)
		spec.SecurityContext.RunAsUser, spec.SecurityContext.RunAsGroup, spec.SecurityContext.FSGroup = &id, &id, &id
	}
	if w.o.Fence {
		spec.InitContainers = []corev1.Container{w.fence()}
	}
	w.place(&spec)
	return spec
}

// tolerations let a pod leave a dead node soon (behaviour B4).
func tolerations() []corev1.Toleration {
	unreachable, notReady := int64(10), int64(60)
	return []corev1.Toleration{
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &unreachable},
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &notReady},
	}
}

// place applies what the administrator decided.
func (w *workload) place(spec *corev1.PodSpec) {
	p := w.pod.Placement
	if p == nil {
		return
	}
	spec.NodeSelector = maps.Clone(p.NodeSelector)
	spec.Tolerations = append(spec.Tolerations, p.Tolerations...)
	spec.Affinity = p.Affinity
	if p.PriorityClassName != "" {
		spec.PriorityClassName = string(p.PriorityClassName)
	}
}

// fence sets packet filter rules in the pod's network namespace and ends
// (behaviour B5). It alone is root, with one capability.
func (w *workload) fence() corev1.Container {
	root, no := int64(0), false
	security := w.restricted("NET_ADMIN")
	security.RunAsNonRoot, security.RunAsUser, security.RunAsGroup = &no, &root, &root
	return corev1.Container{
		Name: "fence", Image: w.o.Images.Fence, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            []string{"--server-ip=" + string(w.vlan.serverIP)},
		SecurityContext: security, Resources: resources("10m", "16Mi", "", "64Mi"),
	}
}

// restricted drops every capability but those named.
func (w *workload) restricted(add ...corev1.Capability) *corev1.SecurityContext {
	yes, no := true, false
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: add},
	}
}

// environment of an agent. The pod IP is known only at run time.
func (w *workload) environment(listen int) []corev1.EnvVar {
	fence := "off"
	if w.o.Fence {
		fence = "on"
	}
	env := []corev1.EnvVar{fromField("POD_IP", "status.podIP")}
	if w.component == ComponentDHCP {
		env = append(env, fromField("POD_UID", "metadata.uid"))
	}
	env = append(env,
		corev1.EnvVar{Name: "OOOI_SNAPSHOT", Value: "/etc/oooi/snapshot.json.gz"},
		corev1.EnvVar{Name: "OOOI_HUB", Value: w.o.Hub},
		corev1.EnvVar{Name: "OOOI_HUB_CA", Value: "/etc/oooi/ca.crt"},
		corev1.EnvVar{Name: "OOOI_TOKEN", Value: "/var/run/secrets/oooi/token"},
		corev1.EnvVar{Name: "OOOI_CHILD", Value: w.child.GetNamespace() + "/" + w.child.GetName()},
		corev1.EnvVar{Name: "OOOI_STATE_DIR", Value: "/var/lib/oooi"},
	)
	if listen != 0 {
		env = append(env, corev1.EnvVar{Name: "OOOI_LISTEN", Value: fmt.Sprintf("$(POD_IP):%d", listen)})
	}
	return append(env, corev1.EnvVar{Name: "OOOI_FENCE", Value: fence})
}

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

// volumes of an agent: its snapshot, its state and its two tokens. The tokens
// are projected by hand, so that only the containers that need them have them.
func (w *workload) volumes() []corev1.Volume {
	hour := int64(3600)
	token := func(audience string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: audience, Path: "token", ExpirationSeconds: &hour,
		}}
	}
	return []corev1.Volume{
		{Name: "snapshot", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: w.name},
		}}},
		{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "hub-token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{token(hubAudience)},
		}}},
		{Name: "api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				token(""),
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
					Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
				}}}},
			},
		}}},
	}
}

// mounts of an agent's container.
func mounts(more ...corev1.VolumeMount) []corev1.VolumeMount {
	out := []corev1.VolumeMount{
		{Name: "snapshot", MountPath: "/etc/oooi", ReadOnly: true},
		{Name: "state", MountPath: "/var/lib/oooi"},
	}
	out = append(out, more...)
	return append(out,
		corev1.VolumeMount{Name: "hub-token", MountPath: "/var/run/secrets/oooi", ReadOnly: true},
		corev1.VolumeMount{Name: "api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
	)
}

// probes ask the pod IP, which is the kubelet's default (behaviour B4).
func probes(c *corev1.Container, livePath, livePort, readyPath, readyPort string) {
	get := func(path, port string) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port)}}
	}
	c.StartupProbe = &corev1.Probe{ProbeHandler: get(livePath, livePort), PeriodSeconds: 1, FailureThreshold: 60}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: get(livePath, livePort), PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 6}
	if readyPath != "" {
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: get(readyPath, readyPort), PeriodSeconds: 2, TimeoutSeconds: 2}
	}
}

// resources reads quantities; no CPU limit is no limit.
func resources(cpu, memory, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)},
	}
	if cpuLimit != "" {
		r.Limits[corev1.ResourceCPU] = resource.MustParse(cpuLimit)
	}
	return r
}

// serving are the resources of the serving container.
func (w *workload) serving(otherwise corev1.ResourceRequirements) corev1.ResourceRequirements {
	if w.pod.Resources != nil {
		return *w.pod.Resources
	}
	return otherwise
}

// isIPv4 says whether text is an address that hostAliases takes.
func isIPv4(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is4()
}
