package render

import (
	"net"

	corev1 "k8s.io/api/core/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/images"
)

// DNS is the workload of a DNSServer.
func DNS(child *v1alpha1.DNSServer, o Options) []Object {
	n := child.Spec.NetworkConfig
	w := newWorkload(child, o, child.Spec.PodConfig, vlan{
		string(n.NetworkAttachmentName), string(n.NetworkAttachmentNamespace), n.ServerIP, n.CIDR,
	})
	spec := w.podSpec(10)
	// The node's resolvers are what the upstream "resolv.conf" means; the
	// cluster's own would be a loop.
	spec.DNSPolicy = corev1.DNSDefault
	if host, _, err := net.SplitHostPort(o.Hub); err == nil && isIPv4(o.HubIP) {
		spec.HostAliases = []corev1.HostAlias{{IP: o.HubIP, Hostnames: []string{host}}}
	}
	c := corev1.Container{
		Name: "coredns", Image: images.Choose(child.Spec.Image, o.Images.CoreDNS), ImagePullPolicy: corev1.PullIfNotPresent,
		Env: w.environment(0),
		Ports: []corev1.ContainerPort{
			{Name: "health", ContainerPort: portHealth, Protocol: corev1.ProtocolTCP},
			{Name: "ready", ContainerPort: portReady, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: portMetrics, Protocol: corev1.ProtocolTCP},
		},
		SecurityContext: w.restricted(), Resources: w.serving(resources("50m", "64Mi", "", "256Mi")), VolumeMounts: mounts(),
	}
	probes(&c, "/health", "health", "/ready", "ready")
	spec.Containers = []corev1.Container{c}

	out := []Object{w.serviceAccount()}
	out = append(out, w.role("dnsservers")...)
	out = append(out, w.scc()...)
	return append(out, w.configMap(), w.service(false,
		servicePort("dns", 53, corev1.ProtocolUDP), servicePort("dns-tcp", 53, corev1.ProtocolTCP),
	), w.deployment(spec))
}
