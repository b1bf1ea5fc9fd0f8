package facts

import (
	"fmt"
	"strings"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// AnnotationAllowedNamespaces on a HostedCluster names the namespaces, separated
// by commas, whose attachments may attach it (behaviour F0).
const AnnotationAllowedNamespaces = "hostedcluster.densityops.com/allowed-namespaces"

// annotationCluster is what HyperShift writes on a HostedControlPlane.
const annotationCluster = "hypershift.openshift.io/cluster"

// admit decides whether the attachment may attach its HostedCluster, and gives
// the UID of it. Once admitted, what cannot be read changes nothing; only an
// object that contradicts withdraws it (behaviour F0).
func (j *judge) admit() (string, metav1.Condition) {
	before := j.attachment.Status.Observed.HostedClusterUID
	if string(j.attachment.Status.ControlPlaneNamespace) != j.controlPlane {
		before = "" // what was known is of another control plane, and vouches for none
	}
	no := func(reason, format string, args ...any) (string, metav1.Condition) {
		return "", condition(v1alpha1.ConditionAdmitted, false, reason, fmt.Sprintf(format, args...))
	}
	stale := func(what string) (string, metav1.Condition) {
		return before, condition(v1alpha1.ConditionAdmitted, true, v1alpha1.ReasonStale, what+"; what was known before stays in force")
	}
	if j.w.Unreadable[KindHostedCluster] || j.w.Unreadable[KindHostedControlPlane] {
		if before != "" {
			return stale("HyperShift's resources cannot be read")
		}
		return no(v1alpha1.ReasonMissingAPI, "the cluster does not serve HyperShift's HostedCluster and HostedControlPlane")
	}
	if j.hosted != nil {
		return j.admitTo(before, no, stale)
	}
	if owner, there := j.controlPlaneOwner(); before != "" && there && owner == j.cluster.String() {
		return stale("HostedCluster " + j.cluster.String() + " is gone, its control plane is still there")
	}
	return no(v1alpha1.ReasonHostedClusterNotFound, "HostedCluster %s does not exist", j.cluster)
}

// admitTo decides about a HostedCluster that is there.
func (j *judge) admitTo(before string, no func(reason, format string, args ...any) (string, metav1.Condition),
	stale func(what string) (string, metav1.Condition),
) (string, metav1.Condition) {
	if !j.permitted() {
		return no(v1alpha1.ReasonHostedClusterRefNotPermitted, "HostedCluster %s lies in another namespace, and its annotation %s does not name %s",
			j.cluster, AnnotationAllowedNamespaces, j.attachment.Namespace)
	}
	owner, there := j.controlPlaneOwner()
	uid := uidOf(j.hosted)
	switch {
	case there && owner == j.cluster.String():
		return uid, condition(v1alpha1.ConditionAdmitted, true, v1alpha1.ReasonReconciliationSucceeded, "HostedCluster "+j.cluster.String()+" may be attached")
	case there:
		return no(v1alpha1.ReasonControlPlaneNamespaceMismatch, "namespace %s holds the control plane of %s, not of %s", j.controlPlane, orUnnamed(owner), j.cluster)
	case before == uid:
		return stale("namespace " + j.controlPlane + " holds no HostedControlPlane")
	case !j.namespaceExists():
		return no(v1alpha1.ReasonControlPlaneNamespaceNotFound, "namespace %s does not exist yet", j.controlPlane)
	}
	return no(v1alpha1.ReasonControlPlaneNamespaceMismatch, "namespace %s holds no HostedControlPlane of %s", j.controlPlane, j.cluster)
}

// uidOf a HostedCluster; offline files hold none, and its name has to do.
func uidOf(h *hyperv1.HostedCluster) string {
	if h.UID != "" {
		return string(h.UID)
	}
	name := h.Namespace + "/" + h.Name
	return name[:min(len(name), 64)]
}

func orUnnamed(owner string) string {
	if owner == "" {
		return "an unnamed cluster"
	}
	return owner
}

// permitted: the HostedCluster lies in the attachment's namespace, or names it.
func (j *judge) permitted() bool {
	if j.hosted.Namespace == j.attachment.Namespace {
		return true
	}
	for name := range strings.SplitSeq(j.hosted.Annotations[AnnotationAllowedNamespaces], ",") {
		if strings.TrimSpace(name) == j.attachment.Namespace {
			return true
		}
	}
	return false
}

// controlPlaneOwner is the cluster whose HostedControlPlane lies in the
// control-plane namespace.
func (j *judge) controlPlaneOwner() (owner string, there bool) {
	for i := range j.w.HostedControlPlanes {
		h := &j.w.HostedControlPlanes[i]
		if h.Namespace != j.controlPlane {
			continue
		}
		there = true
		if owner = h.Annotations[annotationCluster]; owner == j.cluster.String() {
			return owner, true
		}
	}
	return owner, there
}
