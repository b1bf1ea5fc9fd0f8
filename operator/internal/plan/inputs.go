package plan

import (
	"net/netip"
	"time"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Inputs is everything that a Plan is made from.
type Inputs struct {
	Infra Infra
	// Siblings are the other Infras.
	Siblings []Infra
	// Attachments are those of every Infra.
	Attachments []Attachment
	// Bindings are the addresses that the DHCP server has given.
	Bindings []Binding
	// Pool is what it says of its range; zero: nothing yet.
	Pool Pool
	// Listeners are the external listeners that the ProxyServer has.
	Listeners []HeldPort
	// HeldPorts are the pod ports that external Services lead to.
	HeldPorts []HeldPort
	// NetworkAttachments are the NetworkAttachmentDefinitions that are known.
	NetworkAttachments []NetworkAttachment
	// HubNetworks are the pod and service networks of the management cluster.
	HubNetworks []netip.Prefix
	// HubProxy is how the management cluster reaches other networks.
	HubProxy HubProxy
	// Now is when the plan is made. Only how long a change of the network is shown
	// depends on it; zero: not at all.
	Now time.Time
	// ClusterIPs are the Services that internalProxyService may name, and our
	// own; a Service that is headless is absent.
	ClusterIPs map[Key]netip.Addr
}

// HubProxy is the HTTP proxy of the management cluster, and the exceptions.
type HubProxy struct {
	Used    bool
	NoProxy []string
}

// Key names an object.
type Key struct {
	Namespace, Name string
}

// String is namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Infra is an Infra and what its status records.
type Infra struct {
	Key
	UID     string
	Created time.Time
	Spec    v1alpha1.InfraSpec
	// Network that the children were last planned for; nil for a newcomer.
	Network *v1alpha1.NetworkInForce
	// On are the NetworkAttachmentDefinitions that its servers name; none: there is
	// no server, or it is not known. DHCP: one of them serves DHCP, or was planned to.
	On      []Key
	DHCP    bool
	InForce []v1alpha1.AttachmentInForce
	// InternalProxyIP is the last good address of internalProxyService.
	InternalProxyIP netip.Addr
}

// Attachment is an InfraClusterAttachment and what its status records.
type Attachment struct {
	Key
	UID      string
	Created  time.Time
	Deleting bool
	Spec     v1alpha1.InfraClusterAttachmentSpec
	// HostedClusterUID is set once the attachment is admitted.
	HostedClusterUID string
	// Refusal says why it is not.
	Refusal               Reason
	ControlPlaneNamespace string
	Services              []Service
	Workers               []Worker
	// Machines are the virtual machines of the workers.
	Machines []string
	// Networks are the hosted cluster's own.
	Networks []netip.Prefix
	// AppsIP and AppsHostname are the endpoint of *.apps.
	AppsIP       netip.Addr
	AppsHostname string
	// AppsApplied: objects of *.apps are in the hosted cluster, whatever the
	// spec says by now.
	AppsApplied bool
}

// Reason is a condition's reason and message.
type Reason struct {
	Reason, Message string
}

// Service is a Service of a control plane.
type Service struct {
	Role v1alpha1.ServiceRole
	IP   netip.Addr
	Port uint16
}

// Worker is an address that a machine claims.
type Worker struct {
	Address netip.Addr
	Machine string
	// Held: its source lacks it by now; any other claim is better.
	Held bool
}

// Binding is an address that the DHCP server has given; VM is zero for an
// unknown client.
type Binding struct {
	Address netip.Addr
	VM      Key
}

// Pool counts the addresses of the DHCP range.
type Pool struct {
	Total, Free int
}

// HeldPort is a pod port of the proxy that an attachment holds.
type HeldPort struct {
	Attachment string
	Port       uint16
}

// NetworkAttachment is what identifies a NetworkAttachmentDefinition's network.
type NetworkAttachment struct {
	Key
	// Network is the name in its configuration.
	Network string
	// Type, Master and VLAN describe it below the name: the plugin, its bridge,
	// master or physical network, and the VLAN id.
	Type, Master string
	VLAN         int
	// MTU is 0 when it does not say.
	MTU int
	// IPAM is the type of its address management, "" for none.
	IPAM string
}
