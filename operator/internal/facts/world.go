package facts

import (
	"net/netip"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	configv1 "github.com/openshift/api/config/v1"
	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// The kinds that may be unreadable, by the names that World.Unreadable has.
const (
	KindHostedCluster      = "HostedCluster"
	KindHostedControlPlane = "HostedControlPlane"
	KindNodePool           = "NodePool"
	KindMachine            = "Machine"
)

// World is every object that is known. A caller may leave out what cannot
// matter to its question. Nothing of it is changed.
type World struct {
	Infras             []v1alpha1.Infra
	Attachments        []v1alpha1.InfraClusterAttachment
	DHCPServers        []v1alpha1.DHCPServer
	DNSServers         []v1alpha1.DNSServer
	ProxyServers       []v1alpha1.ProxyServer
	Namespaces         []corev1.Namespace
	Services           []corev1.Service
	NetworkAttachments []nadv1.NetworkAttachmentDefinition
	HubNetworks        []netip.Prefix
	// HubProxy is the management cluster's own; nil where there is none.
	HubProxy            *configv1.Proxy
	HostedClusters      []hyperv1.HostedCluster
	HostedControlPlanes []hyperv1.HostedControlPlane
	NodePools           []hyperv1.NodePool
	Machines            []Machine
	// VMIs by namespace and name; nil when they cannot be read.
	VMIs map[plan.Key]bool
	// Unreadable are the kinds that could not be read: their last good facts
	// stay in force.
	Unreadable map[string]bool
}

// Machine is a CAPI Machine of any served version.
type Machine struct {
	plan.Key
	Deleting bool
	// NodePool that it belongs to, from its annotation.
	NodePool plan.Key
	// VM is the name of its virtual machine (infrastructureRef).
	VM string
	// Addresses as they stand in its status.
	Addresses []string
}
