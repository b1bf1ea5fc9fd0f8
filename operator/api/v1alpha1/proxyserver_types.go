package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProxyServer passes TLS by name and source from one VLAN to the clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=proxy;proxies,path=proxyservers,categories=oooi
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="ServerIP",type=string,JSONPath=`.spec.networkConfig.serverIP`
// +kubebuilder:printcolumn:name="Backends",type=integer,JSONPath=`.status.agent.backends`
// +kubebuilder:printcolumn:name="Accepted version",type=string,JSONPath=`.status.agent.acceptedVersion`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Available")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 56",messageExpression="'metadata.name ' + self.metadata.name + ' must be at most 56 characters'"
type ProxyServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec ProxyServerSpec `json:"spec"`
	// status is what is.
	// +optional
	Status ProxyServerStatus `json:"status,omitzero"`
}

// ProxyServerList is a list of ProxyServer.
//
// +kubebuilder:object:root=true
type ProxyServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProxyServer `json:"items"`
}

// ProxyServerSpec is the wanted state of a proxy.
type ProxyServerSpec struct {
	PodConfig `json:",inline"`

	// networkConfig is the VLAN and the server's place on it.
	// +required
	NetworkConfig ProxyNetworkConfig `json:"networkConfig"`
	// backends are the routes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	Backends []ProxyBackend `json:"backends,omitempty"`
	// externalListeners are pod ports, one for each external Service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=250
	ExternalListeners []ProxyExternalListener `json:"externalListeners,omitempty"`
	// accessLog writes one line of JSON per connection.
	// +optional
	// +kubebuilder:default=true
	AccessLog *bool `json:"accessLog,omitempty"`
	// proxyImage (Envoy) overrides the operator's.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProxyImage string `json:"proxyImage,omitempty"`
	// managerImage (xds-manager) overrides the operator's.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ManagerImage string `json:"managerImage,omitempty"`
	// logLevel of Envoy.
	// +optional
	// +kubebuilder:default=info
	LogLevel LogLevel `json:"logLevel,omitempty"`
}

// LogLevel is a log level of Envoy.
//
// +kubebuilder:validation:Enum=trace;debug;info;warning;error;critical;off
type LogLevel string

// ProxyNetworkConfig describes the VLAN of a proxy.
//
// +kubebuilder:validation:XValidation:rule="!isIP(self.serverIP) || self.serverIP.contains(':') || !isCIDR(self.cidr) || self.cidr.contains(':') || cidr(self.cidr).prefixLength() < 8 || cidr(self.cidr).prefixLength() > 30 || (cidr(self.cidr).containsIP(self.serverIP) && (int(self.serverIP.split('.')[0]) * 16777216 + int(self.serverIP.split('.')[1]) * 65536 + int(self.serverIP.split('.')[2]) * 256 + int(self.serverIP.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.cidr).prefixLength() - 8] != 0 && ((int(self.serverIP.split('.')[0]) * 16777216 + int(self.serverIP.split('.')[1]) * 65536 + int(self.serverIP.split('.')[2]) * 256 + int(self.serverIP.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.cidr).prefixLength() - 8] != 0)",messageExpression="'networkConfig.serverIP ' + self.serverIP + ' must be a host address inside networkConfig.cidr ' + self.cidr"
type ProxyNetworkConfig struct {
	// serverIP on the VLAN.
	// +required
	ServerIP IPv4 `json:"serverIP"`
	// cidr of the VLAN.
	// +required
	CIDR IPv4CIDR `json:"cidr"`
	// networkAttachmentName of the NetworkAttachmentDefinition that is the VLAN; none: the pod network alone.
	// +optional
	NetworkAttachmentName ObjectName `json:"networkAttachmentName,omitempty"`
	// networkAttachmentNamespace defaults to the proxy's own.
	// +optional
	NetworkAttachmentNamespace NamespaceName `json:"networkAttachmentNamespace,omitempty"`
	// reservedIPs are never the endpoint that a host name resolves to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ReservedIPs []IPv4 `json:"reservedIPs,omitempty"`
	// upstreamServers resolve endpoints that are host names.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	UpstreamServers []Upstream `json:"upstreamServers,omitempty"`
}

// Hundreds of backends are judged at every write, so they have one rule, and what most
// of them are comes first: each look at a field costs the API server more than the rest.

// ProxyBackend is one route and where it leads. Without hostnames TLS takes a
// hello without SNI, and TCP whatever no other backend of the port took.
//
// +kubebuilder:validation:XValidation:rule="self.protocol == 'TLS' || (self.protocol == 'HTTP' ? has(self.hostnames) && self.hostnames.size() > 0 && (!has(self.sourcePrefixRanges) || self.sourcePrefixRanges.size() == 0) : self.protocol != 'TCP' || !has(self.hostnames) || self.hostnames.size() == 0)",messageExpression="'backends: ' + self.name + (self.protocol == 'TCP' ? ': hostnames have no meaning with protocol TCP: ' + self.hostnames[0] : has(self.hostnames) && self.hostnames.size() > 0 ? ': sourcePrefixRanges have no meaning with protocol HTTP: ' + self.sourcePrefixRanges[0] : ': hostnames are required with protocol HTTP')"
type ProxyBackend struct {
	// name, unique in the proxy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-a-z0-9._/]+$`
	Name string `json:"name"`
	// hostnames, lower case; "*.x" is a wildcard of any depth.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
	Hostnames []string `json:"hostnames,omitempty"`
	// port that clients connect to.
	// +required
	// +kubebuilder:validation:XValidation:rule="self != 53 && self != 9901 && (self < 9090 || self > 9099)",messageExpression="'port ' + (self == 53 ? '53' : self == 9901 ? '9901' : '909' + (self % 10 == 0 ? '0' : self % 10 == 1 ? '1' : self % 10 == 2 ? '2' : self % 10 == 3 ? '3' : self % 10 == 4 ? '4' : self % 10 == 5 ? '5' : self % 10 == 6 ? '6' : self % 10 == 7 ? '7' : self % 10 == 8 ? '8' : '9')) + ' is reserved: 53, 9090-9099 and 9901 are'"
	Port Port `json:"port"`
	// protocol: TLS by server name, HTTP by Host, TCP by port alone.
	// +required
	Protocol ProxyProtocol `json:"protocol"`
	// sourcePrefixRanges limit the route to these sources, on the VLAN only.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MaxLength=18
	// +kubebuilder:validation:items:Format=cidr
	SourcePrefixRanges []string `json:"sourcePrefixRanges,omitempty"`
	// endpoints that take the connections.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Endpoints []ProxyEndpoint `json:"endpoints,omitempty"`
	// podSide makes it reachable on the pod IP too.
	// +optional
	PodSide bool `json:"podSide,omitempty"`
}

// ProxyProtocol is a value of ProxyBackend.Protocol.
//
// +kubebuilder:validation:Enum=TLS;HTTP;TCP
type ProxyProtocol string

// The protocols of a backend.
const (
	ProxyProtocolTLS  ProxyProtocol = "TLS"
	ProxyProtocolHTTP ProxyProtocol = "HTTP"
	ProxyProtocolTCP  ProxyProtocol = "TCP"
)

// ProxyEndpoint is an address, or a host name that must resolve into the VLAN.
//
// +kubebuilder:validation:XValidation:rule="has(self.ip) != has(self.hostname)",messageExpression="'exactly one of ip and hostname is required; ip is ' + (has(self.ip) ? self.ip : 'absent') + ', hostname ' + (has(self.hostname) ? self.hostname : 'absent')"
type ProxyEndpoint struct {
	// ip of the endpoint.
	// +optional
	IP ListedIPv4 `json:"ip,omitempty"`
	// hostname of the endpoint, resolved through upstreamServers.
	// +optional
	Hostname DomainName `json:"hostname,omitempty"`
	// port of the endpoint.
	// +required
	Port Port `json:"port"`
}

// ProxyExternalListener is a pod port for one external Service.
type ProxyExternalListener struct {
	// name, unique in the proxy.
	// +required
	Name ObjectName `json:"name"`
	// port of the pod.
	// +required
	// +kubebuilder:validation:Minimum=20000
	// +kubebuilder:validation:Maximum=20249
	Port int32 `json:"port"`
	// backends by name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	Backends []string `json:"backends,omitempty"`
}

// ProxyServerStatus is what the operator and xds-manager saw.
type ProxyServerStatus struct {
	ComponentStatus `json:",inline"`

	// agent is written by xds-manager alone.
	// +optional
	Agent *ProxyAgentStatus `json:"agent,omitempty"`
}

// ProxyAgentStatus is xds-manager's own stanza.
type ProxyAgentStatus struct {
	AgentStatus `json:",inline"`

	// acceptedVersion of the snapshot that Envoy has acknowledged.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	AcceptedVersion string `json:"acceptedVersion,omitempty"`
	// backends in force.
	// +optional
	Backends int32 `json:"backends"`
}
