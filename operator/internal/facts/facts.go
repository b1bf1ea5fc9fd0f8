package facts

import (
	"net/netip"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// World is every object that is known. A caller may leave out what cannot
// matter to its question.
type World struct {
	Infras              []v1alpha1.Infra
	Attachments         []v1alpha1.InfraClusterAttachment
	DHCPServers         []v1alpha1.DHCPServer
	ProxyServers        []v1alpha1.ProxyServer
	Namespaces          []corev1.Namespace
	Services            []corev1.Service
	NetworkAttachments  []nadv1.NetworkAttachmentDefinition
	HubNetworks         []netip.Prefix
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

// Inputs for the plan of one Infra.
func Inputs(w World, infra *v1alpha1.Infra) plan.Inputs {
	return plan.Inputs{}
}

// Attachment is what the attachment controller records of one attachment.
type Attachment struct {
	Domain                string
	ControlPlaneNamespace string
	Observed              v1alpha1.ObservedFacts
	// Admitted: it may attach its HostedCluster.
	Admitted bool
	// Conditions, without times and generations.
	Conditions []metav1.Condition
	// Recheck says when a held address expires; 0: nothing is held.
	Recheck time.Duration
}

// ForAttachment computes the facts of one attachment. What its status holds
// already counts as the last good value.
func ForAttachment(w World, attachment *v1alpha1.InfraClusterAttachment, now time.Time) Attachment {
	return Attachment{}
}
