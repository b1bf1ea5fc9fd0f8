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
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="ServerIP",type=string,JSONPath=`.spec.networkConfig.serverIP`
// +kubebuilder:printcolumn:name="Leases",type=string,JSONPath=`.status.agent.pool.activeOfTotal`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.agent.pool.free`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Available")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 56",messageExpression="'metadata.name ' + self.metadata.name + ' must be at most 56 characters'"
type DHCPServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec DHCPServerSpec `json:"spec"`
	// status is what is.
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
// +kubebuilder:validation:XValidation:rule="!has(self.reservations) || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || self.reservations.all(r, !isIP(r.ip) || r.ip.contains(':') || (cidr(self.networkConfig.cidr).containsIP(r.ip) && (int(r.ip.split('.')[0]) * 16777216 + int(r.ip.split('.')[1]) * 65536 + int(r.ip.split('.')[2]) * 256 + int(r.ip.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(r.ip.split('.')[0]) * 16777216 + int(r.ip.split('.')[1]) * 65536 + int(r.ip.split('.')[2]) * 256 + int(r.ip.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0))",messageExpression="'reservations: each ip must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.reservations) || self.reservations.all(r, r.ip != self.networkConfig.gateway && r.ip != self.networkConfig.serverIP)",messageExpression="'reservations: no ip may be networkConfig.gateway ' + self.networkConfig.gateway + ' or a serverIP'"
// +kubebuilder:validation:XValidation:rule="!has(self.networkConfig.mtu) || !has(self.options) || !self.options.exists(o, o.code == 26)",message="options.code 26 is decided by the server where networkConfig.mtu is set"
type DHCPServerSpec struct {
	PodConfig `json:",inline"`

	// networkConfig is the VLAN and the server's place on it.
	// +required
	NetworkConfig DHCPNetworkConfig `json:"networkConfig"`
	// leaseConfig is what is given, and for how long.
	// +required
	LeaseConfig DHCPLeaseConfig `json:"leaseConfig"`
	// options are added to every reply; they never replace one that the server
	// decides itself (1, 3, 6, 12, 50 to 59, 61, 82, and 26 with networkConfig.mtu).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(o, self.exists_one(p, p.code == o.code))",message="options: a code is there twice"
	Options []DHCPOption `json:"options,omitempty"`
	// reservations tie addresses to hardware addresses.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=768
	// +kubebuilder:validation:XValidation:rule="self.size() > 256 || self.all(r, self.exists_one(s, s.macAddress == r.macAddress))",message="reservations: a macAddress is there twice"
	// +kubebuilder:validation:XValidation:rule="self.size() > 256 || self.all(r, self.exists_one(s, s.ip == r.ip))",message="reservations: an ip is there twice"
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
	// cidr of the VLAN.
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
	// networkAttachmentName of the NetworkAttachmentDefinition that is the VLAN; none: the pod network alone.
	// +optional
	NetworkAttachmentName ObjectName `json:"networkAttachmentName,omitempty"`
	// networkAttachmentNamespace defaults to the server's own.
	// +optional
	NetworkAttachmentNamespace NamespaceName `json:"networkAttachmentNamespace,omitempty"`
}

// DHCPLeaseConfig is the pool and its lease time.
type DHCPLeaseConfig struct {
	// rangeStart is the first address of the pool.
	// +required
	RangeStart IPv4 `json:"rangeStart"`
	// rangeEnd is the last address of the pool.
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
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(h|m|s|ms))+$') && duration(self) >= duration('60s') && duration(self) <= duration('720h')",messageExpression="'leaseTime ' + self + ' must be a duration between 60s and 720h, such as 1h'"
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
	// code of the option.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=254
	// +kubebuilder:validation:XValidation:rule="!(self in [1, 3, 6, 12, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 61, 82])",messageExpression="'options.code ' + (self == 1 ? '1' : self == 3 ? '3' : self == 6 ? '6' : self == 12 ? '12' : self == 50 ? '50' : self == 51 ? '51' : self == 52 ? '52' : self == 53 ? '53' : self == 54 ? '54' : self == 55 ? '55' : self == 56 ? '56' : self == 57 ? '57' : self == 58 ? '58' : self == 59 ? '59' : self == 61 ? '61' : '82') + ' is decided by the server'"
	Code int32 `json:"code"`
	// value: IPv4 addresses separated by commas go as 4 bytes each, 0x and hex
	// digits as those bytes, anything else as text.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=510
	// +kubebuilder:validation:XValidation:rule="self.startsWith('0x') ? self.matches('^0x([0-9a-fA-F]{2}){1,255}$') : (bytes(self).size() <= 255 || self.matches('^[0-9., ]+$'))",messageExpression="self + ' must be 1 to 255 bytes; after 0x in pairs of hex digits'"
	Value string `json:"value"`
}

// DHCPReservation ties an address to a hardware address.
type DHCPReservation struct {
	// macAddress of one station, such as 02:00:5e:10:00:0a.
	// +required
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F][02468aceACE]((:[0-9a-fA-F]{2}){5}|(-[0-9a-fA-F]{2}){5})$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^00([:-]00){5}$')",messageExpression="'reservations.macAddress ' + self + ' is no station'"
	MACAddress string `json:"macAddress"`
	// ip that it gets, always.
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
	// pool counts the addresses.
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
	// total of the range.
	// +optional
	Total int32 `json:"total"`
	// active leases.
	// +optional
	Active int32 `json:"active"`
	// free addresses.
	// +optional
	Free int32 `json:"free"`
	// declined addresses, which rest.
	// +optional
	Declined int32 `json:"declined"`
	// conflicts: addresses that somebody else uses.
	// +optional
	Conflicts int32 `json:"conflicts"`
	// activeOfTotal is both, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ActiveOfTotal string `json:"activeOfTotal,omitempty"`
}

// DHCPBinding is one address and whose it is.
type DHCPBinding struct {
	// macAddress of the client.
	// +required
	// +kubebuilder:validation:MaxLength=17
	MACAddress string `json:"macAddress"`
	// ip that it has.
	// +required
	IP IPv4 `json:"ip"`
	// vmNamespace and vmName of the VM, empty for an unknown client.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	VMNamespace string `json:"vmNamespace,omitempty"`
	// vmName of the VM.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VMName string `json:"vmName,omitempty"`
}

// DHCPBlock is an inclusive range of addresses.
type DHCPBlock struct {
	// start is the first address.
	// +required
	Start IPv4 `json:"start"`
	// end is the last address.
	// +required
	End IPv4 `json:"end"`
}
