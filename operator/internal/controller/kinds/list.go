package kinds

import (
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	configv1 "github.com/openshift/api/config/v1"
	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IndexCluster finds the NodePools of a hosted cluster, by its namespace/name.
const IndexCluster = "oooi.cluster"

// ClusterOf is the hosted cluster of a NodePool.
func ClusterOf(o client.Object) string {
	return o.GetNamespace() + "/" + o.(*hyperv1.NodePool).Spec.ClusterName
}

// +kubebuilder:rbac:groups=hypershift.openshift.io,resources=hostedclusters;hostedcontrolplanes;nodepools,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachineinstances,verbs=get;list;watch
// +kubebuilder:rbac:groups=k8s.cni.cncf.io,resources=network-attachment-definitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=networks;proxies,verbs=get;list;watch

// The optional kinds. Reading them is all that the operator may do.
var (
	HostedCluster      = Kind{Group: "hypershift.openshift.io", Name: "HostedCluster", Plural: "hostedclusters", Versions: []string{"v1beta1"}, New: Typed[hyperv1.HostedCluster]}
	HostedControlPlane = Kind{Group: "hypershift.openshift.io", Name: "HostedControlPlane", Plural: "hostedcontrolplanes", Versions: []string{"v1beta1"}, New: Typed[hyperv1.HostedControlPlane]}
	NodePool           = Kind{
		Group: "hypershift.openshift.io", Name: "NodePool", Plural: "nodepools", Versions: []string{"v1beta1"}, New: Typed[hyperv1.NodePool],
		Indexes: map[string]func(client.Object) string{IndexCluster: ClusterOf},
	}
	// Machine is read in whatever version is served: what we read of it has not moved.
	Machine = Kind{Group: "cluster.x-k8s.io", Name: "Machine", Plural: "machines", New: Unstructured}
	// VirtualMachineInstance: that it exists is all that we ask.
	VirtualMachineInstance      = Kind{Group: "kubevirt.io", Name: "VirtualMachineInstance", Plural: "virtualmachineinstances", Versions: []string{"v1"}, New: Metadata}
	NetworkAttachmentDefinition = Kind{Group: "k8s.cni.cncf.io", Name: "NetworkAttachmentDefinition", Plural: "network-attachment-definitions", Versions: []string{"v1"}, New: Typed[nadv1.NetworkAttachmentDefinition]}
	OpenShiftNetwork            = Kind{Group: "config.openshift.io", Name: "Network", Plural: "networks", Versions: []string{"v1"}, New: Typed[configv1.Network]}
	OpenShiftProxy              = Kind{Group: "config.openshift.io", Name: "Proxy", Plural: "proxies", Versions: []string{"v1"}, New: Typed[configv1.Proxy]}
	// SecurityContextConstraints are bound by ClusterRoles that name them: that there
	// are any is all that we ask.
	SecurityContextConstraints = Kind{Group: "security.openshift.io", Name: "SecurityContextConstraints", Plural: "securitycontextconstraints"}
)

// All are the kinds that the operator follows anywhere.
func All() []Kind {
	return []Kind{
		HostedCluster, HostedControlPlane, NodePool, Machine, VirtualMachineInstance, NetworkAttachmentDefinition, OpenShiftNetwork,
		OpenShiftProxy,
	}
}
