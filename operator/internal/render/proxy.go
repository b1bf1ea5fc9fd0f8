package render

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/images"
)

// drainSeconds is how long Envoy lets the connections of a removed route live.
const drainSeconds = 600

// envoyMemoryLimit is twice what Envoy's heap may take, and the heap is to hold
// all that the fence lets one source open, none of it read, with room for others.
const envoyMemoryLimit = "2Gi"

// Proxy is the workload of a ProxyServer.
func Proxy(child *v1alpha1.ProxyServer, o Options) []Object {
	n := child.Spec.NetworkConfig
	w := newWorkload(child, o, child.Spec.PodConfig, vlan{
		string(n.NetworkAttachmentName), string(n.NetworkAttachmentNamespace), n.ServerIP, n.CIDR,
	})
	manager := images.Choose(child.Spec.ManagerImage, o.Images.XDSManager)
	spec := w.podSpec(30)
	run := corev1.VolumeMount{Name: "run", MountPath: "/run/oooi"}
	spec.InitContainers = append(spec.InitContainers, corev1.Container{
		Name: "bootstrap", Image: manager, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"bootstrap"},
		Env: []corev1.EnvVar{fromField("POD_IP", "status.podIP"), envoyMemory()}, SecurityContext: w.restricted(),
		Resources: resources("10m", "32Mi", "", "128Mi"), VolumeMounts: []corev1.VolumeMount{run},
	})
	// The unix sockets of xDS and of Envoy's administration.
	size := resource.MustParse("16Mi")
	spec.Volumes = slices.Insert(spec.Volumes, 2, corev1.Volume{Name: "run", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size},
	}})
	m := corev1.Container{
		Name: "xds-manager", Image: manager, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"},
		Env: w.environment(portManager), Ports: []corev1.ContainerPort{{Name: "health", ContainerPort: portManager, Protocol: corev1.ProtocolTCP}},
		SecurityContext: w.restricted(), Resources: resources("50m", "64Mi", "", "512Mi"), VolumeMounts: mounts(run),
	}
	probes(&m, "/live", "health", "/ready", "health")
	spec.Containers = []corev1.Container{m, w.envoy(child, run)}

	out := []Object{w.serviceAccount()}
	out = append(out, w.role("proxyservers")...)
	out = append(out, w.scc()...)
	return append(out, w.configMap(), w.service(false, proxyPorts(child.Spec.Backends)...), w.deployment(spec))
}

// envoy has no token, no capability, and no file but its bootstrap.
func (w *workload) envoy(child *v1alpha1.ProxyServer, run corev1.VolumeMount) corev1.Container {
	r := w.serving(resources("100m", "128Mi", "2", envoyMemoryLimit))
	level := string(child.Spec.LogLevel)
	args := []string{
		"--config-path", "/run/oooi/bootstrap.yaml", "--concurrency", strconv.FormatInt(concurrency(r), 10), "--disable-hot-restart",
		"--drain-time-s", strconv.Itoa(drainSeconds), "--drain-strategy", "immediate",
	}
	if level != "" && level != "info" {
		args = append(args, "--log-level", level)
	}
	c := corev1.Container{
		// The binary, not the image's entry point, which wants to start as root.
		Name: "envoy", Image: images.Choose(child.Spec.ProxyImage, w.o.Images.Envoy), ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"/usr/local/bin/envoy"}, Args: args,
		Ports:           []corev1.ContainerPort{{Name: "stats", ContainerPort: portStats, Protocol: corev1.ProtocolTCP}},
		SecurityContext: w.restricted(), Resources: r, VolumeMounts: []corev1.VolumeMount{run},
	}
	probes(&c, "/stats?filter=server.live", "stats", "", "")
	// The manager answers when the connections have drained (behaviour E11). A name
	// of another container's port means nothing to kubelet.
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/drained", Port: intstr.FromInt32(portManager)},
	}}
	return c
}

// envoyMemory tells the bootstrap where Envoy takes no new connection (behaviour
// E7). Where Envoy has no limit the kubelet says what the node has to give.
func envoyMemory() corev1.EnvVar {
	return corev1.EnvVar{Name: "OOOI_ENVOY_MEMORY", ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "envoy", Resource: "limits.memory"},
	}}
}

// concurrency is Envoy's number of workers: it would take the node's CPUs and
// does not know of limits (behaviour E7).
func concurrency(r corev1.ResourceRequirements) int64 {
	cpu, found := r.Limits[corev1.ResourceCPU]
	if !found {
		return 2
	}
	return max(1, (cpu.MilliValue()+999)/1000)
}

// proxyPorts are 443, 6443, the ports that the pod side serves beside them, and
// Envoy's statistics (behaviour D1).
func proxyPorts(backends []v1alpha1.ProxyBackend) []corev1.ServicePort {
	out := []corev1.ServicePort{servicePort("https", 443, corev1.ProtocolTCP), servicePort("api", 6443, corev1.ProtocolTCP)}
	seen := []int32{443, 6443, portStats}
	var more []int32
	for _, b := range backends {
		if b.PodSide && !slices.Contains(seen, int32(b.Port)) && !slices.Contains(more, int32(b.Port)) {
			more = append(more, int32(b.Port))
		}
	}
	slices.Sort(more)
	for _, port := range more {
		name := fmt.Sprintf("port-%d", port)
		if port == 80 {
			name = "http"
		}
		out = append(out, servicePort(name, port, corev1.ProtocolTCP))
	}
	return append(out, servicePort("stats", portStats, corev1.ProtocolTCP))
}
