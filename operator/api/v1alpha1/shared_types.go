package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IPv4 is an IPv4 address in dotted form, without leading zeros.
//
// +kubebuilder:validation:MaxLength=15
// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",messageExpression="self + ' must be an IPv4 address without leading zeros, such as 192.0.2.1'"
type IPv4 string

// A child has thousands of addresses, and the API server judges them at every write.
// A pattern costs it a fraction of a rule.

// ListedIPv4 is an IPv4 address in dotted form, without leading zeros.
//
// +kubebuilder:validation:MaxLength=15
// +kubebuilder:validation:Pattern=`^(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(\.(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])){3}$`
type ListedIPv4 string

// IPv4CIDR is an IPv4 network with no host bits set, between /8 and /30.
//
// +kubebuilder:validation:MaxLength=18
// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked()",messageExpression="self + ' must be an IPv4 network without host bits, such as 192.0.2.0/24'"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || (cidr(self).prefixLength() >= 8 && cidr(self).prefixLength() <= 30)",messageExpression="self + ' must be between /8 and /30'"
type IPv4CIDR string

// IPv4Range is "first-last", a network, or one address.
//
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:Pattern=`^[0-9]{1,3}(\.[0-9]{1,3}){3}( *- *[0-9]{1,3}(\.[0-9]{1,3}){3}|/[0-9]{1,2})?$`
// +kubebuilder:validation:XValidation:rule="self.contains('-') ? self.split('-').size() == 2 && self.split('-').all(p, isIP(p.trim())) : self.contains('/') ? isCIDR(self) && cidr(self) == cidr(self).masked() : isIP(self)",messageExpression="self + ' must be first-last, a network without host bits, or one address, in IPv4 without leading zeros'"
// +kubebuilder:validation:XValidation:rule="!self.contains('-') || self.split('-').size() != 2 || !self.split('-').all(p, isIP(p.trim())) || (int(self.split('-')[0].trim().split('.')[0]) * 16777216 + int(self.split('-')[0].trim().split('.')[1]) * 65536 + int(self.split('-')[0].trim().split('.')[2]) * 256 + int(self.split('-')[0].trim().split('.')[3])) <= (int(self.split('-')[1].trim().split('.')[0]) * 16777216 + int(self.split('-')[1].trim().split('.')[1]) * 65536 + int(self.split('-')[1].trim().split('.')[2]) * 256 + int(self.split('-')[1].trim().split('.')[3]))",messageExpression="self.split('-')[0].trim() + ' must not be after ' + self.split('-')[1].trim()"
type IPv4Range string

// Upstream is a resolver: an IPv4 address, address:port, or "resolv.conf" for
// the resolvers of the node.
//
// +kubebuilder:validation:MaxLength=21
// +kubebuilder:validation:XValidation:rule="self == 'resolv.conf' || (isIP(self.split(':')[0]) && ip(self.split(':')[0]).family() == 4 && (self.split(':').size() == 1 || (self.split(':').size() == 2 && self.split(':')[1].matches('^[1-9][0-9]{0,4}$') && int(self.split(':')[1]) <= 65535)))",messageExpression="self + ' must be an IPv4 address, address:port or resolv.conf'"
// +kubebuilder:validation:XValidation:rule="!isIP(self.split(':')[0]) || ip(self.split(':')[0]).family() != 4 || (self.split(':')[0] != '0.0.0.0' && int(self.split('.')[0]) < 224)",messageExpression="self + ' can be no resolver'"
type Upstream string

// DomainName is a lower-case DNS name without a trailing dot (RFC 1123).
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
type DomainName string

// ObjectName is the name of a Kubernetes object (RFC 1123 subdomain).
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type ObjectName string

// NamespaceName is the name of a namespace (RFC 1123 label).
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type NamespaceName string

// Port is a TCP port.
//
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=65535
type Port int32

// PodConfig is what an administrator decides about a component's pod.
type PodConfig struct {
	// placement says where the pod may run: a VLAN exists on some nodes only.
	// +optional
	Placement *Placement `json:"placement,omitempty"`
	// resources of the serving container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// imagePullSecrets of the pod, in its own namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// Placement is copied into the pod.
type Placement struct {
	// nodeSelector of the pod.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations of the pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity of the pod.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// priorityClassName of the pod; default system-cluster-critical.
	// +optional
	PriorityClassName ObjectName `json:"priorityClassName,omitempty"`
}

// NetworkAttachment names a NetworkAttachmentDefinition.
type NetworkAttachment struct {
	// namespace of the NetworkAttachmentDefinition.
	// +required
	Namespace NamespaceName `json:"namespace"`
	// name of the NetworkAttachmentDefinition.
	// +required
	Name ObjectName `json:"name"`
}

// AgentProblem is something that an agent cannot cure by itself.
type AgentProblem struct {
	// reason in CamelCase.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason"`
	// message in words; holds nothing that changes by itself.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
}

// AgentStatus is what every agent reports of itself.
type AgentStatus struct {
	// observedVersion of the snapshot that is in force.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ObservedVersion string `json:"observedVersion,omitempty"`
	// observedGeneration that the snapshot in force was made from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// moduleVersion of the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ModuleVersion string `json:"moduleVersion,omitempty"`
	// contract that the agent speaks, such as agent.v1.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Contract string `json:"contract,omitempty"`
	// problems, sorted by reason and message.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Problems []AgentProblem `json:"problems,omitempty"`
}

// ComponentStatus is common to the three children.
type ComponentStatus struct {
	// conditions of the component; Ready sums them up.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration that the operator last reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// snapshotVersion that the agent is wanted to have in force.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SnapshotVersion string `json:"snapshotVersion,omitempty"`
}
