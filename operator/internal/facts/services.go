package facts

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// roles are the Services of a control plane (behaviour E1), and the port that
// each has as a rule; the live Service decides. The attachment may name another one of
// its API server. ignition-server is where ignition-server-proxy is missing.
var roles = []struct {
	role  v1alpha1.ServiceRole
	names []string
	port  int32
}{
	{v1alpha1.ServiceRoleAPIServer, []string{"kube-apiserver"}, 6443},
	{v1alpha1.ServiceRoleOAuth, []string{"oauth-openshift"}, 6443},
	{v1alpha1.ServiceRoleIgnition, []string{"ignition-server-proxy", "ignition-server"}, 443},
	{v1alpha1.ServiceRoleKonnectivity, []string{"konnectivity-server"}, 8091},
}

// servicesOf finds the control plane's Services.
func (j *judge) servicesOf() (found []v1alpha1.ObservedService, missing []string) {
	byName := map[string]*corev1.Service{}
	for i := range j.w.Services {
		if s := &j.w.Services[i]; s.Namespace == j.controlPlane {
			byName[s.Name] = s
		}
	}
next:
	for _, r := range roles {
		names := r.names
		if declared := j.attachment.Spec.APIServerService; r.role == v1alpha1.ServiceRoleAPIServer && declared != "" {
			names = []string{string(declared)}
		}
		for _, name := range names {
			if s, ok := observedService(byName[name], r.role, r.port); ok {
				found = append(found, s)
				continue next
			}
		}
		missing = append(missing, names[0])
	}
	return found, missing
}

func observedService(s *corev1.Service, role v1alpha1.ServiceRole, usual int32) (v1alpha1.ObservedService, bool) {
	if s == nil {
		return v1alpha1.ObservedService{}, false
	}
	ip, err := plan.ParseIPv4(s.Spec.ClusterIP)
	port := portOf(s, usual)
	if err != nil || port == nil {
		return v1alpha1.ObservedService{}, false
	}
	target := port.TargetPort
	if target == (intstr.IntOrString{}) {
		target = intstr.FromInt32(port.Port)
	}
	return v1alpha1.ObservedService{
		Role: role, Name: s.Name, ClusterIP: v1alpha1.IPv4(ip.String()), Port: v1alpha1.Port(port.Port), TargetPort: target.String(),
	}, true
}

// portOf is the Service's usual port, else its TLS port, else its first.
func portOf(s *corev1.Service, usual int32) *corev1.ServicePort {
	var tls, first *corev1.ServicePort
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
			continue
		}
		if p.Port == usual {
			return p
		}
		if tls == nil && (p.Name == "https" || p.Name == "client") {
			tls = p
		}
		if first == nil {
			first = p
		}
	}
	if tls != nil {
		return tls
	}
	return first
}

// available is the condition ControlPlaneAvailable.
func (j *judge) available(missing []string) metav1.Condition {
	switch {
	case !j.namespaceExists():
		return condition(v1alpha1.ConditionControlPlaneAvailable, false, v1alpha1.ReasonControlPlaneNamespaceNotFound,
			"namespace "+j.controlPlane+" does not exist yet")
	case len(missing) > 0:
		return condition(v1alpha1.ConditionControlPlaneAvailable, false, v1alpha1.ReasonServicesNotFound,
			"Services with a ClusterIP are missing in namespace "+j.controlPlane+": "+strings.Join(missing, ", "))
	}
	return condition(v1alpha1.ConditionControlPlaneAvailable, true, v1alpha1.ReasonReconciliationSucceeded, "the control plane's Services are known")
}

// namespaceExists: it is there, or something that lies in it is.
func (j *judge) namespaceExists() bool {
	for i := range j.w.Namespaces {
		if j.w.Namespaces[i].Name == j.controlPlane {
			return true
		}
	}
	for i := range j.w.HostedControlPlanes {
		if j.w.HostedControlPlanes[i].Namespace == j.controlPlane {
			return true
		}
	}
	for i := range j.w.Services {
		if j.w.Services[i].Namespace == j.controlPlane {
			return true
		}
	}
	return false
}
