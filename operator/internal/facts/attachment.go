package facts

import (
	"net/netip"
	"time"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// Attachment is what the attachment controller records of one attachment.
type Attachment struct {
	Domain                string
	ControlPlaneNamespace string
	Observed              v1alpha1.ObservedFacts
	// Admitted: it may attach its HostedCluster.
	Admitted bool
	// Conditions, without times and generations.
	Conditions []metav1.Condition
	// Strays, in words, are machines that have addresses and none on the VLAN.
	Strays string
	// Recheck says when a held address expires; 0: nothing is held.
	Recheck time.Duration
}

// judge is one attachment while its facts are gathered.
type judge struct {
	w            World
	attachment   *v1alpha1.InfraClusterAttachment
	now          time.Time
	cluster      plan.Key
	controlPlane string
	// cidr of the Infra's VLAN; zero where the Infra is unknown.
	cidr   netip.Prefix
	lease  time.Duration
	infra  *v1alpha1.Infra
	hosted *hyperv1.HostedCluster
	next   time.Duration
}

// ClusterOf is the HostedCluster that an attachment names.
func ClusterOf(a *v1alpha1.InfraClusterAttachment) plan.Key {
	k := plan.Key{Namespace: string(a.Spec.HostedClusterRef.Namespace), Name: string(a.Spec.HostedClusterRef.Name)}
	if k.Namespace == "" {
		k.Namespace = "clusters"
	}
	return k
}

// ControlPlaneOf is the attachment's control-plane namespace.
func ControlPlaneOf(a *v1alpha1.InfraClusterAttachment) string {
	if a.Spec.ControlPlaneNamespace != "" {
		return string(a.Spec.ControlPlaneNamespace)
	}
	k := ClusterOf(a)
	return k.Namespace + "-" + k.Name
}

// ForAttachment computes the facts of one attachment. What its status holds
// already counts as the last good value.
func ForAttachment(w World, attachment *v1alpha1.InfraClusterAttachment, now time.Time) Attachment {
	j := &judge{
		w: w, attachment: attachment, now: now, cluster: ClusterOf(attachment), controlPlane: ControlPlaneOf(attachment), lease: time.Hour,
	}
	for i := range w.Infras {
		if in := &w.Infras[i]; in.Namespace == attachment.Namespace && in.Name == string(attachment.Spec.InfraRef.Name) {
			j.infra, j.lease = in, plan.LeaseTime(in.Spec.InfraComponents.DHCP.LeaseTime)
			j.cidr, _ = plan.ParseCIDR(string(in.Spec.NetworkConfig.CIDR))
		}
	}
	for i := range w.HostedClusters {
		if h := &w.HostedClusters[i]; h.Namespace == j.cluster.Namespace && h.Name == j.cluster.Name {
			j.hosted = h
		}
	}
	return j.facts()
}

func (j *judge) facts() Attachment {
	out := Attachment{Domain: plan.Domain(j.attachment.Spec.DNS), ControlPlaneNamespace: j.controlPlane}
	uid, admitted := j.admit()
	out.Admitted = uid != ""
	out.Conditions = append(out.Conditions, admitted)
	if !out.Admitted {
		// Nothing is recorded of what is not theirs.
		out.Conditions = append(out.Conditions, unknown(v1alpha1.ConditionControlPlaneAvailable, admitted),
			unknown(v1alpha1.ConditionEndpointMismatch, admitted), unknown(v1alpha1.ConditionClusterProxyBypassesVLAN, admitted),
			unknown(v1alpha1.ConditionControlPlaneConnectionAvailable, admitted), unknown(v1alpha1.ConditionDataPlaneConnectionAvailable, admitted))
		return out
	}
	services, missing := j.servicesOf()
	workers, machines := j.workersOf()
	out.Strays = j.strays(workers)
	out.Observed = v1alpha1.ObservedFacts{
		HostedClusterUID: uid, Services: services, Workers: workers, Machines: machines, Ranges: j.networks(),
	}
	out.Conditions = append(out.Conditions, j.available(missing))
	out.Conditions = append(out.Conditions, j.hostedConditions()...)
	out.Recheck = j.next
	return out
}

// recheck asks for another look after d.
func (j *judge) recheck(d time.Duration) {
	if j.next == 0 || d < j.next {
		j.next = d
	}
}

// networks are the hosted cluster's pod and service networks; the last good
// ones where it cannot be read. Its machine network is the VLAN.
func (j *judge) networks() []string {
	if j.hosted == nil {
		return j.attachment.Status.Observed.Ranges
	}
	var out []string
	for _, n := range j.hosted.Spec.Networking.ClusterNetwork {
		out = append(out, n.CIDR.String())
	}
	for _, n := range j.hosted.Spec.Networking.ServiceNetwork {
		out = append(out, n.CIDR.String())
	}
	return out
}

func condition(kind string, is bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// unknown is a condition that cannot be judged, because of another.
func unknown(kind string, because metav1.Condition) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: because.Reason, Message: because.Message}
}
