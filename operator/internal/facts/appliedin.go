package facts

import (
	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// HostedCluster identifies the hosted cluster of an attachment by its facts, and where
// its API server is.
func HostedCluster(a *v1alpha1.InfraClusterAttachment, controlPlane string, o v1alpha1.ObservedFacts) v1alpha1.AppliedIn {
	k := ClusterOf(a)
	in := v1alpha1.AppliedIn{
		Namespace: v1alpha1.NamespaceName(k.Namespace), Name: v1alpha1.ObjectName(k.Name), UID: o.HostedClusterUID,
		ControlPlaneNamespace: v1alpha1.NamespaceName(controlPlane),
	}
	for _, s := range o.Services {
		if s.Role == v1alpha1.ServiceRoleAPIServer {
			in.Service, in.Port = s.Name, s.Port
		}
	}
	return in
}

// AppliedIn is the hosted cluster in which an attachment has made objects, as it was
// recorded while it was admitted: what it declares by now, or may, is another matter.
func AppliedIn(a *v1alpha1.InfraClusterAttachment) v1alpha1.AppliedIn {
	if st := a.Status.AppsIngressStatus; st != nil && st.AppliedIn != (v1alpha1.AppliedIn{}) {
		return st.AppliedIn
	}
	return HostedCluster(a, string(a.Status.ControlPlaneNamespace), a.Status.Observed)
}

// Whereabouts says whether a hosted cluster is gone, or being deleted, and whether
// another one has its name or its control-plane namespace: there nothing is ours. Of one
// that is not identified nothing is said.
func Whereabouts(w World, in v1alpha1.AppliedIn) (gone, replaced bool) {
	if in.UID == "" || w.Unreadable[KindHostedCluster] || w.Unreadable[KindHostedControlPlane] {
		return false, false
	}
	j := judge{w: w, cluster: plan.Key{Namespace: string(in.Namespace), Name: string(in.Name)}, controlPlane: string(in.ControlPlaneNamespace)}
	owner, there := j.controlPlaneOwner()
	replaced = there && owner != j.cluster.String()
	for i := range w.HostedClusters {
		if h := &w.HostedClusters[i]; h.Namespace == j.cluster.Namespace && h.Name == j.cluster.Name {
			replaced = replaced || uidOf(h) != in.UID
			return replaced || h.DeletionTimestamp != nil, replaced
		}
	}
	return true, replaced
}
