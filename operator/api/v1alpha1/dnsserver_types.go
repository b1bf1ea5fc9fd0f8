package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DNSServer answers names on one VLAN and in the pod network.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dns,path=dnsservers,categories=oooi
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="ServerIP",type=string,JSONPath=`.spec.networkConfig.serverIP`
// +kubebuilder:printcolumn:name="Names",type=integer,JSONPath=`.status.agent.names`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Available")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 56",messageExpression="'metadata.name ' + self.metadata.name + ' must be at most 56 characters'"
type DNSServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec DNSServerSpec `json:"spec"`
	// status is what is.
	// +optional
	Status DNSServerStatus `json:"status,omitzero"`
}

// DNSServerList is a list of DNSServer.
//
// +kubebuilder:object:root=true
type DNSServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DNSServer `json:"items"`
}

// DNSServerSpec is the wanted state of a DNS server.
// +kubebuilder:validation:XValidation:rule="!has(self.hosts) || !isCIDR(self.networkConfig.cidr) || [cidr(self.networkConfig.cidr)].all(c, self.hosts.all(h, !isIP(h.address) || c.containsIP(h.address)))",messageExpression="'hosts: each address must lie inside networkConfig.cidr ' + self.networkConfig.cidr"
type DNSServerSpec struct {
	PodConfig `json:",inline"`

	// networkConfig is the VLAN and the server's place on it.
	// +required
	NetworkConfig DNSNetworkConfig `json:"networkConfig"`
	// zones are the apexes that negative answers take their SOA from.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Zones []DomainName `json:"zones,omitempty"`
	// records are the owned names.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	Records []DNSRecord `json:"records,omitempty"`
	// hosts are answered forward and in reverse.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	Hosts []DNSHost `json:"hosts,omitempty"`
	// upstreamServers for every other name; none: such names are refused.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	UpstreamServers []Upstream `json:"upstreamServers,omitempty"`
	// ownAddresses are this server's other addresses; never an upstream.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	OwnAddresses []IPv4 `json:"ownAddresses,omitempty"`
	// ttlSeconds of our own answers.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`
	// image overrides the operator's.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
}

// DNSNetworkConfig describes the VLAN of a DNS server.
//
// +kubebuilder:validation:XValidation:rule="!isIP(self.serverIP) || self.serverIP.contains(':') || !isCIDR(self.cidr) || self.cidr.contains(':') || cidr(self.cidr).prefixLength() < 8 || cidr(self.cidr).prefixLength() > 30 || (cidr(self.cidr).containsIP(self.serverIP) && (int(self.serverIP.split('.')[0]) * 16777216 + int(self.serverIP.split('.')[1]) * 65536 + int(self.serverIP.split('.')[2]) * 256 + int(self.serverIP.split('.')[3])) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.cidr).prefixLength() - 8] != 0 && ((int(self.serverIP.split('.')[0]) * 16777216 + int(self.serverIP.split('.')[1]) * 65536 + int(self.serverIP.split('.')[2]) * 256 + int(self.serverIP.split('.')[3])) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.cidr).prefixLength() - 8] != 0)",messageExpression="'networkConfig.serverIP ' + self.serverIP + ' must be a host address inside networkConfig.cidr ' + self.cidr"
type DNSNetworkConfig struct {
	// cidr whose sources get the VLAN view.
	// +required
	CIDR IPv4CIDR `json:"cidr"`
	// serverIP on the VLAN.
	// +required
	ServerIP IPv4 `json:"serverIP"`
	// networkAttachmentName of the NetworkAttachmentDefinition that is the VLAN; none: the pod network alone.
	// +optional
	NetworkAttachmentName ObjectName `json:"networkAttachmentName,omitempty"`
	// networkAttachmentNamespace defaults to the server's own.
	// +optional
	NetworkAttachmentNamespace NamespaceName `json:"networkAttachmentNamespace,omitempty"`
	// additionalSourceCIDRs get the VLAN view too.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	AdditionalSourceCIDRs []IPv4CIDR `json:"additionalSourceCIDRs,omitempty"`
}

// DNSRecord is an owned name: types other than A are NODATA.
type DNSRecord struct {
	// name, lower case, no trailing dot; "*.x" is a wildcard of any depth.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
	Name string `json:"name"`
	// moreNames are answered as name is. A cluster has several that lead to one place,
	// and hundreds of records are judged at every write.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
	MoreNames []string `json:"moreNames,omitempty"`
	// vlan is the view of the VLAN.
	// +required
	VLAN DNSView `json:"vlan"`
	// pod is the view of the pod network.
	// +required
	Pod DNSView `json:"pod"`
}

// Names are all that the record answers for.
func (r DNSRecord) Names() []string {
	return append([]string{r.Name}, r.MoreNames...)
}

// DNSView is one view's answer.
//
// +kubebuilder:validation:XValidation:rule="self.policy == 'Answer' ? has(self.addresses) && self.addresses.size() > 0 : !has(self.addresses) || self.addresses.size() == 0",messageExpression="'addresses belong to policy Answer, and to it alone; policy is ' + self.policy"
type DNSView struct {
	// policy: Answer gives the addresses, NoData says that there are none, Forward asks the upstreams.
	// +required
	Policy DNSPolicy `json:"policy"`
	// addresses of the answer.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Addresses []ListedIPv4 `json:"addresses,omitempty"`
}

// DNSPolicy is a value of DNSView.Policy.
//
// +kubebuilder:validation:Enum=Answer;NoData;Forward
type DNSPolicy string

// The policies of a view.
const (
	DNSPolicyAnswer  DNSPolicy = "Answer"
	DNSPolicyNoData  DNSPolicy = "NoData"
	DNSPolicyForward DNSPolicy = "Forward"
)

// DNSHost is a host on the VLAN.
type DNSHost struct {
	// name of the host.
	// +required
	Name DomainName `json:"name"`
	// address of it, inside the CIDR.
	// +required
	Address ListedIPv4 `json:"address"`
}

// DNSServerStatus is what the operator and the DNS server saw.
type DNSServerStatus struct {
	ComponentStatus `json:",inline"`

	// agent is written by the DNS server alone.
	// +optional
	Agent *DNSAgentStatus `json:"agent,omitempty"`
}

// DNSAgentStatus is the DNS server's own stanza.
type DNSAgentStatus struct {
	AgentStatus `json:",inline"`

	// names that are owned.
	// +optional
	Names int32 `json:"names"`
}
