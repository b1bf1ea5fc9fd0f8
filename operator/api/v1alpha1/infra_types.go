package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Infra is the shared stack of one VLAN: its DHCP server, its DNS server and
// its proxy.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=infra,path=infras,categories=oooi
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.networkConfig.cidr`
// +kubebuilder:printcolumn:name="Attachments",type=string,JSONPath=`.status.attachments.readyOfTotal`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Available")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 48",messageExpression="'metadata.name ' + self.metadata.name + ' must be at most 48 characters: the names of the components are made from it'"
type Infra struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec InfraSpec `json:"spec"`
	// status is what is.
	// +optional
	Status InfraStatus `json:"status,omitzero"`
}

// InfraList is a list of Infra.
//
// +kubebuilder:object:root=true
type InfraList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Infra `json:"items"`
}

// InfraSpec is the wanted state of the shared stack. A rule that compares turns
// each address into a number.
//
// +kubebuilder:validation:XValidation:rule="!isIP(self.networkConfig.gateway) || self.networkConfig.gateway.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.networkConfig.gateway) && (int(self.networkConfig.gateway.split('.')[0]) * 16777216 + int(self.networkConfig.gateway.split('.')[1]) * 65536 + int(self.networkConfig.gateway.split('.')[2]) * 256 + int(self.networkConfig.gateway.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.networkConfig.gateway.split('.')[0]) * 16777216 + int(self.networkConfig.gateway.split('.')[1]) * 65536 + int(self.networkConfig.gateway.split('.')[2]) * 256 + int(self.networkConfig.gateway.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'networkConfig.gateway ' + self.networkConfig.gateway + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dhcp.serverIP) || !isIP(self.infraComponents.dhcp.serverIP) || self.infraComponents.dhcp.serverIP.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.infraComponents.dhcp.serverIP) && (int(self.infraComponents.dhcp.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.serverIP.split('.')[2]) * 256 + int(self.infraComponents.dhcp.serverIP.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.infraComponents.dhcp.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.serverIP.split('.')[2]) * 256 + int(self.infraComponents.dhcp.serverIP.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'infraComponents.dhcp.serverIP ' + self.infraComponents.dhcp.serverIP + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dns.serverIP) || !isIP(self.infraComponents.dns.serverIP) || self.infraComponents.dns.serverIP.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.infraComponents.dns.serverIP) && (int(self.infraComponents.dns.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.dns.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.dns.serverIP.split('.')[2]) * 256 + int(self.infraComponents.dns.serverIP.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.infraComponents.dns.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.dns.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.dns.serverIP.split('.')[2]) * 256 + int(self.infraComponents.dns.serverIP.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'infraComponents.dns.serverIP ' + self.infraComponents.dns.serverIP + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.proxy.serverIP) || !isIP(self.infraComponents.proxy.serverIP) || self.infraComponents.proxy.serverIP.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.infraComponents.proxy.serverIP) && (int(self.infraComponents.proxy.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.proxy.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.proxy.serverIP.split('.')[2]) * 256 + int(self.infraComponents.proxy.serverIP.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.infraComponents.proxy.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.proxy.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.proxy.serverIP.split('.')[2]) * 256 + int(self.infraComponents.proxy.serverIP.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'infraComponents.proxy.serverIP ' + self.infraComponents.proxy.serverIP + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dhcp.rangeStart) || !isIP(self.infraComponents.dhcp.rangeStart) || self.infraComponents.dhcp.rangeStart.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.infraComponents.dhcp.rangeStart) && (int(self.infraComponents.dhcp.rangeStart.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeStart.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeStart.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeStart.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.infraComponents.dhcp.rangeStart.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeStart.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeStart.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeStart.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'infraComponents.dhcp.rangeStart ' + self.infraComponents.dhcp.rangeStart + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dhcp.rangeEnd) || !isIP(self.infraComponents.dhcp.rangeEnd) || self.infraComponents.dhcp.rangeEnd.contains(':') || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || (cidr(self.networkConfig.cidr).containsIP(self.infraComponents.dhcp.rangeEnd) && (int(self.infraComponents.dhcp.rangeEnd.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeEnd.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeEnd.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeEnd.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(self.infraComponents.dhcp.rangeEnd.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeEnd.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeEnd.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeEnd.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0)",messageExpression="'infraComponents.dhcp.rangeEnd ' + self.infraComponents.dhcp.rangeEnd + ' must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dhcp.serverIP) || (self.infraComponents.dhcp.serverIP != self.networkConfig.gateway)",messageExpression="'infraComponents.dhcp.serverIP ' + self.infraComponents.dhcp.serverIP + ' must differ from networkConfig.gateway'"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dns.serverIP) || (self.infraComponents.dns.serverIP != self.networkConfig.gateway && (!has(self.infraComponents.dhcp.serverIP) || self.infraComponents.dns.serverIP != self.infraComponents.dhcp.serverIP))",messageExpression="'infraComponents.dns.serverIP ' + self.infraComponents.dns.serverIP + ' must differ from networkConfig.gateway, infraComponents.dhcp.serverIP'"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.proxy.serverIP) || (self.infraComponents.proxy.serverIP != self.networkConfig.gateway && (!has(self.infraComponents.dhcp.serverIP) || self.infraComponents.proxy.serverIP != self.infraComponents.dhcp.serverIP) && (!has(self.infraComponents.dns.serverIP) || self.infraComponents.proxy.serverIP != self.infraComponents.dns.serverIP))",messageExpression="'infraComponents.proxy.serverIP ' + self.infraComponents.proxy.serverIP + ' must differ from networkConfig.gateway, infraComponents.dhcp.serverIP, infraComponents.dns.serverIP'"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dhcp.rangeStart) || !has(self.infraComponents.dhcp.rangeEnd) || !isIP(self.infraComponents.dhcp.rangeEnd) || self.infraComponents.dhcp.rangeEnd.contains(':') || !isIP(self.infraComponents.dhcp.rangeStart) || self.infraComponents.dhcp.rangeStart.contains(':') || (int(self.infraComponents.dhcp.rangeStart.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeStart.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeStart.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeStart.split('.')[3])) <= (int(self.infraComponents.dhcp.rangeEnd.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeEnd.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeEnd.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeEnd.split('.')[3]))",messageExpression="'infraComponents.dhcp.rangeStart ' + self.infraComponents.dhcp.rangeStart + ' must not be after infraComponents.dhcp.rangeEnd ' + self.infraComponents.dhcp.rangeEnd"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dhcp.rangeStart) || !has(self.infraComponents.dhcp.rangeEnd) || !isIP(self.infraComponents.dhcp.rangeEnd) || self.infraComponents.dhcp.rangeEnd.contains(':') || !isIP(self.infraComponents.dhcp.rangeStart) || self.infraComponents.dhcp.rangeStart.contains(':') || !isIP(self.networkConfig.gateway) || self.networkConfig.gateway.contains(':') || (int(self.networkConfig.gateway.split('.')[0]) * 16777216 + int(self.networkConfig.gateway.split('.')[1]) * 65536 + int(self.networkConfig.gateway.split('.')[2]) * 256 + int(self.networkConfig.gateway.split('.')[3])) < (int(self.infraComponents.dhcp.rangeStart.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeStart.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeStart.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeStart.split('.')[3])) || (int(self.networkConfig.gateway.split('.')[0]) * 16777216 + int(self.networkConfig.gateway.split('.')[1]) * 65536 + int(self.networkConfig.gateway.split('.')[2]) * 256 + int(self.networkConfig.gateway.split('.')[3])) > (int(self.infraComponents.dhcp.rangeEnd.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeEnd.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeEnd.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeEnd.split('.')[3]))",messageExpression="'networkConfig.gateway ' + self.networkConfig.gateway + ' must not lie in the range ' + self.infraComponents.dhcp.rangeStart + '-' + self.infraComponents.dhcp.rangeEnd"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dhcp.serverIP) || !has(self.infraComponents.dhcp.rangeStart) || !has(self.infraComponents.dhcp.rangeEnd) || !isIP(self.infraComponents.dhcp.rangeEnd) || self.infraComponents.dhcp.rangeEnd.contains(':') || !isIP(self.infraComponents.dhcp.rangeStart) || self.infraComponents.dhcp.rangeStart.contains(':') || !isIP(self.infraComponents.dhcp.serverIP) || self.infraComponents.dhcp.serverIP.contains(':') || (int(self.infraComponents.dhcp.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.serverIP.split('.')[2]) * 256 + int(self.infraComponents.dhcp.serverIP.split('.')[3])) < (int(self.infraComponents.dhcp.rangeStart.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeStart.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeStart.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeStart.split('.')[3])) || (int(self.infraComponents.dhcp.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.serverIP.split('.')[2]) * 256 + int(self.infraComponents.dhcp.serverIP.split('.')[3])) > (int(self.infraComponents.dhcp.rangeEnd.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeEnd.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeEnd.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeEnd.split('.')[3]))",messageExpression="'infraComponents.dhcp.serverIP ' + self.infraComponents.dhcp.serverIP + ' must not lie in the range ' + self.infraComponents.dhcp.rangeStart + '-' + self.infraComponents.dhcp.rangeEnd"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dns.serverIP) || !has(self.infraComponents.dhcp.rangeStart) || !has(self.infraComponents.dhcp.rangeEnd) || !isIP(self.infraComponents.dhcp.rangeEnd) || self.infraComponents.dhcp.rangeEnd.contains(':') || !isIP(self.infraComponents.dhcp.rangeStart) || self.infraComponents.dhcp.rangeStart.contains(':') || !isIP(self.infraComponents.dns.serverIP) || self.infraComponents.dns.serverIP.contains(':') || (int(self.infraComponents.dns.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.dns.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.dns.serverIP.split('.')[2]) * 256 + int(self.infraComponents.dns.serverIP.split('.')[3])) < (int(self.infraComponents.dhcp.rangeStart.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeStart.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeStart.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeStart.split('.')[3])) || (int(self.infraComponents.dns.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.dns.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.dns.serverIP.split('.')[2]) * 256 + int(self.infraComponents.dns.serverIP.split('.')[3])) > (int(self.infraComponents.dhcp.rangeEnd.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeEnd.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeEnd.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeEnd.split('.')[3]))",messageExpression="'infraComponents.dns.serverIP ' + self.infraComponents.dns.serverIP + ' must not lie in the range ' + self.infraComponents.dhcp.rangeStart + '-' + self.infraComponents.dhcp.rangeEnd"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.proxy.serverIP) || !has(self.infraComponents.dhcp.rangeStart) || !has(self.infraComponents.dhcp.rangeEnd) || !isIP(self.infraComponents.dhcp.rangeEnd) || self.infraComponents.dhcp.rangeEnd.contains(':') || !isIP(self.infraComponents.dhcp.rangeStart) || self.infraComponents.dhcp.rangeStart.contains(':') || !isIP(self.infraComponents.proxy.serverIP) || self.infraComponents.proxy.serverIP.contains(':') || (int(self.infraComponents.proxy.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.proxy.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.proxy.serverIP.split('.')[2]) * 256 + int(self.infraComponents.proxy.serverIP.split('.')[3])) < (int(self.infraComponents.dhcp.rangeStart.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeStart.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeStart.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeStart.split('.')[3])) || (int(self.infraComponents.proxy.serverIP.split('.')[0]) * 16777216 + int(self.infraComponents.proxy.serverIP.split('.')[1]) * 65536 + int(self.infraComponents.proxy.serverIP.split('.')[2]) * 256 + int(self.infraComponents.proxy.serverIP.split('.')[3])) > (int(self.infraComponents.dhcp.rangeEnd.split('.')[0]) * 16777216 + int(self.infraComponents.dhcp.rangeEnd.split('.')[1]) * 65536 + int(self.infraComponents.dhcp.rangeEnd.split('.')[2]) * 256 + int(self.infraComponents.dhcp.rangeEnd.split('.')[3]))",messageExpression="'infraComponents.proxy.serverIP ' + self.infraComponents.proxy.serverIP + ' must not lie in the range ' + self.infraComponents.dhcp.rangeStart + '-' + self.infraComponents.dhcp.rangeEnd"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dhcp.reservations) || !isCIDR(self.networkConfig.cidr) || self.networkConfig.cidr.contains(':') || cidr(self.networkConfig.cidr).prefixLength() < 8 || cidr(self.networkConfig.cidr).prefixLength() > 30 || self.infraComponents.dhcp.reservations.all(r, !isIP(r.ip) || r.ip.contains(':') || (cidr(self.networkConfig.cidr).containsIP(r.ip) && (int(r.ip.split('.')[0]) * 16777216 + int(r.ip.split('.')[1]) * 65536 + int(r.ip.split('.')[2]) * 256 + int(r.ip.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0 && ((int(r.ip.split('.')[0]) * 16777216 + int(r.ip.split('.')[1]) * 65536 + int(r.ip.split('.')[2]) * 256 + int(r.ip.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.networkConfig.cidr).prefixLength() - 8] != 0))",messageExpression="'infraComponents.dhcp.reservations: each ip must be a host address inside networkConfig.cidr ' + self.networkConfig.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.infraComponents.dhcp.reservations) || self.infraComponents.dhcp.reservations.all(r, r.ip != self.networkConfig.gateway && (!has(self.infraComponents.dhcp.serverIP) || r.ip != self.infraComponents.dhcp.serverIP) && (!has(self.infraComponents.dns.serverIP) || r.ip != self.infraComponents.dns.serverIP) && (!has(self.infraComponents.proxy.serverIP) || r.ip != self.infraComponents.proxy.serverIP))",messageExpression="'infraComponents.dhcp.reservations: no ip may be networkConfig.gateway ' + self.networkConfig.gateway + ' or a serverIP'"
type InfraSpec struct {
	// networkConfig describes the VLAN.
	// +required
	NetworkConfig InfraNetworkConfig `json:"networkConfig"`
	// infraComponents are what runs on it. All three are enabled by default.
	// +optional
	// +kubebuilder:default={}
	InfraComponents InfraComponents `json:"infraComponents,omitzero"`
	// conflictPolicy decides about attachments that claim the same domain or
	// the same HostedCluster: ExcludeAll excludes every one of them, KeepOldest
	// keeps the one that is in force, else the oldest. Between attachments of
	// different namespaces it is always KeepOldest.
	// +optional
	// +kubebuilder:default=ExcludeAll
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`
	// retainDisabled keeps the resource of a component that is disabled; false
	// deletes it.
	// +optional
	// +kubebuilder:default=true
	RetainDisabled *bool `json:"retainDisabled,omitempty"`
}

// ConflictPolicy is a value of InfraSpec.ConflictPolicy.
//
// +kubebuilder:validation:Enum=ExcludeAll;KeepOldest
type ConflictPolicy string

// The conflict policies.
const (
	ConflictPolicyExcludeAll ConflictPolicy = "ExcludeAll"
	ConflictPolicyKeepOldest ConflictPolicy = "KeepOldest"
)

// InfraNetworkConfig describes the VLAN.
type InfraNetworkConfig struct {
	// cidr of the VLAN, such as 192.0.2.0/24.
	// +required
	CIDR IPv4CIDR `json:"cidr"`
	// gateway of the VLAN.
	// +required
	Gateway IPv4 `json:"gateway"`
	// networkAttachmentDefinition that is the VLAN.
	// +required
	NetworkAttachmentDefinition ObjectName `json:"networkAttachmentDefinition"`
	// networkAttachmentNamespace that holds it; default the Infra's.
	// +optional
	NetworkAttachmentNamespace NamespaceName `json:"networkAttachmentNamespace,omitempty"`
	// dnsServers are the resolvers for every name that is not ours.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	DNSServers []Upstream `json:"dnsServers,omitempty"`
}

// InfraComponents are the three services of the VLAN.
type InfraComponents struct {
	// dhcp gives the VLAN its addresses.
	// +optional
	// +kubebuilder:default={}
	DHCP InfraDHCP `json:"dhcp,omitzero"`
	// dns answers the names of the clusters on the VLAN and for pods.
	// +optional
	// +kubebuilder:default={}
	DNS InfraDNS `json:"dns,omitzero"`
	// proxy passes TLS from the VLAN to the control planes.
	// +optional
	// +kubebuilder:default={}
	Proxy InfraProxy `json:"proxy,omitzero"`
}

// InfraDHCP configures the DHCP server.
type InfraDHCP struct {
	PodConfig `json:",inline"`

	// enabled runs a DHCP server; false keeps or deletes it as retainDisabled says.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// serverIP on the VLAN.
	// +optional
	ServerIP IPv4 `json:"serverIP,omitempty"`
	// rangeStart is the first address of the pool.
	// +optional
	RangeStart IPv4 `json:"rangeStart,omitempty"`
	// rangeEnd is the last address of the pool.
	// +optional
	RangeEnd IPv4 `json:"rangeEnd,omitempty"`
	// leaseTime as a Go duration, 60s to 720h.
	// +optional
	// +kubebuilder:default="1h"
	LeaseTime LeaseTime `json:"leaseTime,omitempty"`
	// image overrides the operator's.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// unknownClients that are no known VM are served or ignored.
	// +optional
	// +kubebuilder:default=Serve
	UnknownClients UnknownClients `json:"unknownClients,omitempty"`
	// reservations tie addresses to hardware addresses: those are never given to
	// anybody else.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=768
	// +kubebuilder:validation:XValidation:rule="self.size() > 256 || self.all(r, self.exists_one(s, s.ip == r.ip))",message="reservations: an ip is there twice"
	// +kubebuilder:validation:XValidation:rule="self.size() > 256 || self.all(r, self.exists_one(s, s.macAddress == r.macAddress))",message="reservations: a macAddress is there twice"
	Reservations []DHCPReservation `json:"reservations,omitempty"`
	// options are added to every reply; they never replace one that the server
	// decides itself (1, 3, 6, 12, 50 to 59, 61, 82, and 26 where the MTU is known).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(o, self.exists_one(p, p.code == o.code))",message="options: a code is there twice"
	Options []DHCPOption `json:"options,omitempty"`
	// excludedRanges are never given.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	ExcludedRanges []IPv4Range `json:"excludedRanges,omitempty"`
	// relays (giaddr) that are served.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Relays []IPv4 `json:"relays,omitempty"`
}

// InfraDNS configures the DNS server.
type InfraDNS struct {
	PodConfig `json:",inline"`

	// enabled runs a DNS server; false keeps or deletes it as retainDisabled says.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// serverIP on the VLAN.
	// +optional
	ServerIP IPv4 `json:"serverIP,omitempty"`
	// image overrides the operator's.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// additionalSourceCIDRs get the VLAN view too.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	AdditionalSourceCIDRs []IPv4CIDR `json:"additionalSourceCIDRs,omitempty"`
	// ttlSeconds of our own answers.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`
}

// InfraProxy configures the proxy.
type InfraProxy struct {
	PodConfig `json:",inline"`

	// enabled runs a proxy; false keeps or deletes it as retainDisabled says.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// serverIP on the VLAN.
	// +optional
	ServerIP IPv4 `json:"serverIP,omitempty"`
	// internalProxyService is the DNS name or ClusterIP of the proxy's Service.
	// Pods get it as the answer for the clusters' names; without it those names
	// are forwarded for pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
	InternalProxyService string `json:"internalProxyService,omitempty"`
	// proxyImage (Envoy) overrides the operator's.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProxyImage string `json:"proxyImage,omitempty"`
	// managerImage (xds-manager) overrides the operator's.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ManagerImage string `json:"managerImage,omitempty"`
	// accessLog writes one line of JSON per connection.
	// +optional
	// +kubebuilder:default=true
	AccessLog *bool `json:"accessLog,omitempty"`
	// legacyKonnectivityFallback takes hellos without SNI on 443.
	// +optional
	// +kubebuilder:default=Auto
	LegacyKonnectivityFallback LegacyKonnectivityFallback `json:"legacyKonnectivityFallback,omitempty"`
}

// LegacyKonnectivityFallback is a value of InfraProxy.
//
// +kubebuilder:validation:Enum=Auto;Disabled
type LegacyKonnectivityFallback string

// The values of LegacyKonnectivityFallback.
const (
	LegacyKonnectivityFallbackAuto     LegacyKonnectivityFallback = "Auto"
	LegacyKonnectivityFallbackDisabled LegacyKonnectivityFallback = "Disabled"
)

// InfraStatus is what the operator saw and did.
type InfraStatus struct {
	// conditions; Ready sums them up.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration that the operator last reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// componentStatus says what is provisioned.
	// +optional
	ComponentStatus InfraComponentStatus `json:"componentStatus,omitzero"`
	// attachments that name this Infra.
	// +optional
	Attachments AttachmentCounts `json:"attachments,omitzero"`
	// internalProxyIP is the last good address of internalProxyService.
	// +optional
	InternalProxyIP IPv4 `json:"internalProxyIP,omitempty"`
	// inForce is what the children's plan was last made from; a newcomer never
	// takes it away.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=250
	InForce []AttachmentInForce `json:"inForce,omitempty"`
	// network that the children were last planned for; another Infra never
	// takes it away.
	// +optional
	Network *NetworkInForce `json:"network,omitempty"`
}

// NetworkInForce is what an Infra holds of its VLAN.
type NetworkInForce struct {
	// cidr of the VLAN.
	// +required
	CIDR IPv4CIDR `json:"cidr"`
	// dhcpServerIP on the VLAN.
	// +optional
	DHCPServerIP IPv4 `json:"dhcpServerIP,omitempty"`
	// dnsServerIP on the VLAN.
	// +optional
	DNSServerIP IPv4 `json:"dnsServerIP,omitempty"`
	// proxyServerIP on the VLAN.
	// +optional
	ProxyServerIP IPv4 `json:"proxyServerIP,omitempty"`
	// renewal is set after a change, while running workers keep what they had.
	// +optional
	Renewal *NetworkRenewal `json:"renewal,omitempty"`
}

// NetworkRenewal says what running workers keep until they renew their leases.
type NetworkRenewal struct {
	// message in words.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
	// until when the last lease has been renewed.
	// +required
	Until metav1.Time `json:"until"`
}

// InfraComponentStatus holds a boolean for each component.
type InfraComponentStatus struct {
	// dhcpReady: the DHCP server is provisioned.
	// +optional
	DHCPReady bool `json:"dhcpReady"`
	// dnsReady: the DNS server is provisioned.
	// +optional
	DNSReady bool `json:"dnsReady"`
	// proxyReady: the proxy is provisioned and has a route.
	// +optional
	ProxyReady bool `json:"proxyReady"`
}

// AttachmentCounts counts attachments.
type AttachmentCounts struct {
	// total of the attachments.
	// +optional
	Total int32 `json:"total"`
	// ready ones among them.
	// +optional
	Ready int32 `json:"ready"`
	// readyOfTotal is both, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ReadyOfTotal string `json:"readyOfTotal,omitempty"`
}

// AttachmentInForce is what one attachment holds of the shared stack.
type AttachmentInForce struct {
	// attachment by name, in the Infra's namespace.
	// +required
	Attachment ObjectName `json:"attachment"`
	// domain that it holds.
	// +optional
	Domain DomainName `json:"domain,omitempty"`
	// hostedClusterUID that it holds.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	HostedClusterUID string `json:"hostedClusterUID,omitempty"`
	// range that its load balancer pool holds.
	// +optional
	Range IPv4Range `json:"range,omitempty"`
	// httpPort of the VLAN that its *.apps holds.
	// +optional
	HTTPPort Port `json:"httpPort,omitempty"`
	// httpsPort of the VLAN that its *.apps holds.
	// +optional
	HTTPSPort Port `json:"httpsPort,omitempty"`
	// externalPort is the proxy's pod port of its external Service.
	// +optional
	ExternalPort Port `json:"externalPort,omitempty"`
}
