package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DHCPServer serves leases on one VLAN. An Infra makes one; alone it works too.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dhcpserver,path=dhcpservers,categories=oooi
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="ServerIP",type=string,JSONPath=`.spec.networkConfig.serverIP`
// +kubebuilder:printcolumn:name="Leases",type=string,JSONPath=`.status.agent.pool.activeOfTotal`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.agent.pool.free`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 56",message="metadata.name must be at most 56 characters"
type DHCPServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec DHCPServerSpec `json:"spec"`
	// +optional
	Status DHCPServerStatus `json:"status,omitzero"`
}

// DHCPServerList is a list of DHCPServer.
//
// +kubebuilder:object:root=true
type DHCPServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DHCPServer `json:"items"`
}

// DHCPServerSpec is the wanted state of a DHCP server.
//
// +kubebuilder:validation:XValidation:rule="!isIP(self.networkConfig.gateway) || self.networkConfig.gateway.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.networkConfig.gateway) && (int(self.networkConfig.gateway.split('.')[0]) * 16777216 + int(self.networkConfig.gateway.split('.')[1]) * 65536 + int(self.networkConfig.gateway.split('.')[2]) * 256 + int(self.networkConfig.gateway.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.networkConfig.gateway.split('.')[0]) * 16777216 + int(self.networkConfig.gateway.split('.')[1]) * 65536 + int(self.networkConfig.gateway.split('.')[2]) * 256 + int(self.networkConfig.gateway.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'networkConfig.gateway ' + self.networkConfig.gateway + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!isIP(self.networkConfig.serverIP) || self.networkConfig.serverIP.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.networkConfig.serverIP) && (int(self.networkConfig.serverIP.split('.')[0]) * 16777216 + int(self.networkConfig.serverIP.split('.')[1]) * 65536 + int(self.networkConfig.serverIP.split('.')[2]) * 256 + int(self.networkConfig.serverIP.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.networkConfig.serverIP.split('.')[0]) * 16777216 + int(self.networkConfig.serverIP.split('.')[1]) * 65536 + int(self.networkConfig.serverIP.split('.')[2]) * 256 + int(self.networkConfig.serverIP.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'networkConfig.serverIP ' + self.networkConfig.serverIP + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!isIP(self.leaseConfig.rangeStart) || self.leaseConfig.rangeStart.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.leaseConfig.rangeStart) && (int(self.leaseConfig.rangeStart.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeStart.split('.')[1]) * 65536 + int(self.leaseConfig.rangeStart.split('.')[2]) * 256 + int(self.leaseConfig.rangeStart.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.leaseConfig.rangeStart.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeStart.split('.')[1]) * 65536 + int(self.leaseConfig.rangeStart.split('.')[2]) * 256 + int(self.leaseConfig.rangeStart.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'leaseConfig.rangeStart ' + self.leaseConfig.rangeStart + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!isIP(self.leaseConfig.rangeEnd) || self.leaseConfig.rangeEnd.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.leaseConfig.rangeEnd) && (int(self.leaseConfig.rangeEnd.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeEnd.split('.')[1]) * 65536 + int(self.leaseConfig.rangeEnd.split('.')[2]) * 256 + int(self.leaseConfig.rangeEnd.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.leaseConfig.rangeEnd.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeEnd.split('.')[1]) * 65536 + int(self.leaseConfig.rangeEnd.split('.')[2]) * 256 + int(self.leaseConfig.rangeEnd.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'leaseConfig.rangeEnd ' + self.leaseConfig.rangeEnd + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="(self.networkConfig.serverIP != self.networkConfig.gateway)",messageExpression="'networkConfig.serverIP ' + self.networkConfig.serverIP + ' must differ from networkConfig.gateway'"
// +kubebuilder:validation:XValidation:rule="!isIP(self.leaseConfig.rangeEnd) || self.leaseConfig.rangeEnd.contains(':') || !isIP(self.leaseConfig.rangeStart) || self.leaseConfig.rangeStart.contains(':') || (int(self.leaseConfig.rangeStart.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeStart.split('.')[1]) * 65536 + int(self.leaseConfig.rangeStart.split('.')[2]) * 256 + int(self.leaseConfig.rangeStart.split('.')[3])) <= (int(self.leaseConfig.rangeEnd.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeEnd.split('.')[1]) * 65536 + int(self.leaseConfig.rangeEnd.split('.')[2]) * 256 + int(self.leaseConfig.rangeEnd.split('.')[3]))",messageExpression="'leaseConfig.rangeStart ' + self.leaseConfig.rangeStart + ' must not be after leaseConfig.rangeEnd ' + self.leaseConfig.rangeEnd"
// +kubebuilder:validation:XValidation:rule="!isIP(self.leaseConfig.rangeEnd) || self.leaseConfig.rangeEnd.contains(':') || !isIP(self.leaseConfig.rangeStart) || self.leaseConfig.rangeStart.contains(':') || !isIP(self.networkConfig.gateway) || self.networkConfig.gateway.contains(':') || (int(self.networkConfig.gateway.split('.')[0]) * 16777216 + int(self.networkConfig.gateway.split('.')[1]) * 65536 + int(self.networkConfig.gateway.split('.')[2]) * 256 + int(self.networkConfig.gateway.split('.')[3])) < (int(self.leaseConfig.rangeStart.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeStart.split('.')[1]) * 65536 + int(self.leaseConfig.rangeStart.split('.')[2]) * 256 + int(self.leaseConfig.rangeStart.split('.')[3])) || (int(self.networkConfig.gateway.split('.')[0]) * 16777216 + int(self.networkConfig.gateway.split('.')[1]) * 65536 + int(self.networkConfig.gateway.split('.')[2]) * 256 + int(self.networkConfig.gateway.split('.')[3])) > (int(self.leaseConfig.rangeEnd.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeEnd.split('.')[1]) * 65536 + int(self.leaseConfig.rangeEnd.split('.')[2]) * 256 + int(self.leaseConfig.rangeEnd.split('.')[3]))",messageExpression="'networkConfig.gateway ' + self.networkConfig.gateway + ' must not lie in the range ' + self.leaseConfig.rangeStart + '-' + self.leaseConfig.rangeEnd"
// +kubebuilder:validation:XValidation:rule="!isIP(self.leaseConfig.rangeEnd) || self.leaseConfig.rangeEnd.contains(':') || !isIP(self.leaseConfig.rangeStart) || self.leaseConfig.rangeStart.contains(':') || !isIP(self.networkConfig.serverIP) || self.networkConfig.serverIP.contains(':') || (int(self.networkConfig.serverIP.split('.')[0]) * 16777216 + int(self.networkConfig.serverIP.split('.')[1]) * 65536 + int(self.networkConfig.serverIP.split('.')[2]) * 256 + int(self.networkConfig.serverIP.split('.')[3])) < (int(self.leaseConfig.rangeStart.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeStart.split('.')[1]) * 65536 + int(self.leaseConfig.rangeStart.split('.')[2]) * 256 + int(self.leaseConfig.rangeStart.split('.')[3])) || (int(self.networkConfig.serverIP.split('.')[0]) * 16777216 + int(self.networkConfig.serverIP.split('.')[1]) * 65536 + int(self.networkConfig.serverIP.split('.')[2]) * 256 + int(self.networkConfig.serverIP.split('.')[3])) > (int(self.leaseConfig.rangeEnd.split('.')[0]) * 16777216 + int(self.leaseConfig.rangeEnd.split('.')[1]) * 65536 + int(self.leaseConfig.rangeEnd.split('.')[2]) * 256 + int(self.leaseConfig.rangeEnd.split('.')[3]))",messageExpression="'networkConfig.serverIP ' + self.networkConfig.serverIP + ' must not lie in the range ' + self.leaseConfig.rangeStart + '-' + self.leaseConfig.rangeEnd"
type DHCPServerSpec struct {
	PodConfig `json:",inline"`

	// +required
	NetworkConfig DHCPNetworkConfig `json:"networkConfig"`
	// +required
	LeaseConfig DHCPLeaseConfig `json:"leaseConfig"`
	// options are added to every reply; they never replace one that the server
	// sets itself (1, 3, 6, 12, 26, 51, 53, 54, 58, 59, 61, 82).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Options []DHCPOption `json:"options,omitempty"`
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Reservations []DHCPReservation `json:"reservations,omitempty"`
	// unknownClients that are no known VM are served or ignored.
	// +optional
	// +kubebuilder:default=Serve
	UnknownClients UnknownClients `json:"unknownClients,omitempty"`
	// excludedRanges are never given.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	ExcludedRanges []IPv4Range `json:"excludedRanges,omitempty"`
	// relays (giaddr) that are served.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Relays []IPv4 `json:"relays,omitempty"`
	// networkAttachments are every NetworkAttachmentDefinition of this
	// network; default the one of networkConfig.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	NetworkAttachments []NetworkAttachment `json:"networkAttachments,omitempty"`
	// vmiNamespaces where VirtualMachineInstances are looked up, "*" is
	// everywhere; default the server's own namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$`
	VMINamespaces []string `json:"vmiNamespaces,omitempty"`
	// image overrides the operator's.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
}

// DHCPNetworkConfig describes the VLAN of a DHCP server.
type DHCPNetworkConfig struct {
	// +required
	CIDR IPv4CIDR `json:"cidr"`
	// gateway is option 3.
	// +required
	Gateway IPv4 `json:"gateway"`
	// serverIP is the server's own address and option 54.
	// +required
	ServerIP IPv4 `json:"serverIP"`
	// dnsServers is option 6.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	DNSServers []IPv4 `json:"dnsServers,omitempty"`
	// mtu is option 26; left out when unknown.
	// +optional
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65535
	MTU int32 `json:"mtu,omitempty"`
	// +optional
	NetworkAttachmentName ObjectName `json:"networkAttachmentName,omitempty"`
	// networkAttachmentNamespace defaults to the server's own.
	// +optional
	NetworkAttachmentNamespace NamespaceName `json:"networkAttachmentNamespace,omitempty"`
}

// DHCPLeaseConfig is the pool and its lease time.
type DHCPLeaseConfig struct {
	// +required
	RangeStart IPv4 `json:"rangeStart"`
	// +required
	RangeEnd IPv4 `json:"rangeEnd"`
	// leaseTime as a Go duration, 60s to 720h.
	// +optional
	// +kubebuilder:default="1h"
	LeaseTime LeaseTime `json:"leaseTime,omitempty"`
}

// LeaseTime is a Go duration.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(h|m|s|ms))+$') && duration(self) >= duration('60s') && duration(self) <= duration('720h')",message="leaseTime must be a duration between 60s and 720h, such as 1h"
type LeaseTime string

// UnknownClients is a value of DHCPServerSpec.UnknownClients.
//
// +kubebuilder:validation:Enum=Serve;Ignore
type UnknownClients string

// The values of UnknownClients.
const (
	UnknownClientsServe  UnknownClients = "Serve"
	UnknownClientsIgnore UnknownClients = "Ignore"
)

// DHCPOption is an option of RFC 2132.
type DHCPOption struct {
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=254
	Code int32 `json:"code"`
	// value: IPv4 addresses separated by commas go as 4 bytes each, 0x and hex
	// digits as those bytes, anything else as text.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=510
	Value string `json:"value"`
}

// DHCPReservation ties an address to a hardware address.
type DHCPReservation struct {
	// +required
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}$`
	MACAddress string `json:"macAddress"`
	// +required
	IP IPv4 `json:"ip"`
	// hostname is option 12.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Hostname string `json:"hostname,omitempty"`
}

// DHCPServerStatus is what the operator and dhcpd saw.
type DHCPServerStatus struct {
	ComponentStatus `json:",inline"`

	// agent is written by dhcpd alone.
	// +optional
	Agent *DHCPAgentStatus `json:"agent,omitempty"`
}

// DHCPAgentStatus is dhcpd's own stanza.
type DHCPAgentStatus struct {
	AgentStatus `json:",inline"`

	// holder is the UID of the pod that allocates.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Holder string `json:"holder,omitempty"`
	// +optional
	Pool DHCPPoolStatus `json:"pool,omitzero"`
	// bindings are every known address, sorted by address.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	Bindings []DHCPBinding `json:"bindings,omitempty"`
	// blocks are set aside for new clients.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Blocks []DHCPBlock `json:"blocks,omitempty"`
}

// DHCPPoolStatus counts addresses.
type DHCPPoolStatus struct {
	// +optional
	Total int32 `json:"total"`
	// +optional
	Active int32 `json:"active"`
	// +optional
	Free int32 `json:"free"`
	// +optional
	Declined int32 `json:"declined"`
	// +optional
	Conflicts int32 `json:"conflicts"`
	// activeOfTotal is both, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ActiveOfTotal string `json:"activeOfTotal,omitempty"`
}

// DHCPBinding is one address and whose it is.
type DHCPBinding struct {
	// +required
	// +kubebuilder:validation:MaxLength=17
	MACAddress string `json:"macAddress"`
	// +required
	IP IPv4 `json:"ip"`
	// vmNamespace and vmName of the VM, empty for an unknown client.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	VMNamespace string `json:"vmNamespace,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VMName string `json:"vmName,omitempty"`
}

// DHCPBlock is an inclusive range of addresses.
type DHCPBlock struct {
	// +required
	Start IPv4 `json:"start"`
	// +required
	End IPv4 `json:"end"`
}
