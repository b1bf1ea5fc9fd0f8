package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InfraClusterAttachment attaches one HostedCluster to the shared stack of an
// Infra in the same namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ica;infraattachment,path=infraclusterattachments,categories=oooi
// +kubebuilder:printcolumn:name="Infra",type=string,JSONPath=`.spec.infraRef.name`
// +kubebuilder:printcolumn:name="HostedCluster",type=string,JSONPath=`.spec.hostedClusterRef.name`
// +kubebuilder:printcolumn:name="Domain",type=string,JSONPath=`.status.domain`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 48",messageExpression="'metadata.name ' + self.metadata.name + ' must be at most 48 characters: the name of the external Service is made from it'"
type InfraClusterAttachment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec InfraClusterAttachmentSpec `json:"spec"`
	// status is what is.
	// +optional
	Status InfraClusterAttachmentStatus `json:"status,omitzero"`
}

// InfraClusterAttachmentList is a list of InfraClusterAttachment.
//
// +kubebuilder:object:root=true
type InfraClusterAttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []InfraClusterAttachment `json:"items"`
}

// InfraClusterAttachmentSpec is the wanted state of an attachment.
type InfraClusterAttachmentSpec struct {
	// infraRef names the Infra, in the same namespace.
	// +required
	InfraRef InfraRef `json:"infraRef"`
	// hostedClusterRef names the HostedCluster.
	// +required
	HostedClusterRef HostedClusterRef `json:"hostedClusterRef"`
	// dns is the domain that the cluster is served under.
	// +required
	DNS AttachmentDNS `json:"dns"`
	// controlPlaneNamespace defaults to "<hosted cluster's namespace>-<name>".
	// +optional
	ControlPlaneNamespace NamespaceName `json:"controlPlaneNamespace,omitempty"`
	// apiServerService in the control-plane namespace.
	// +optional
	// +kubebuilder:default=kube-apiserver
	APIServerService NamespaceName `json:"apiServerService,omitempty"`
	// externalService publishes oauth, ignition and konnectivity outside.
	// +optional
	ExternalService ExternalService `json:"externalService,omitzero"`
	// appsIngress brings *.apps of the hosted cluster to the VLAN.
	// +optional
	AppsIngress AppsIngress `json:"appsIngress,omitzero"`
}

// InfraRef names an Infra.
type InfraRef struct {
	// name of the Infra.
	// +required
	Name ObjectName `json:"name"`
}

// HostedClusterRef names a HostedCluster.
type HostedClusterRef struct {
	// name of the HostedCluster.
	// +required
	Name ObjectName `json:"name"`
	// namespace of the HostedCluster.
	// +optional
	// +kubebuilder:default=clusters
	Namespace NamespaceName `json:"namespace,omitempty"`
}

// AttachmentDNS builds the cluster's domain, "<clusterName>.<baseDomain>".
//
// +kubebuilder:validation:XValidation:rule="self.clusterName.size() + self.baseDomain.size() <= 240",messageExpression="'dns.clusterName.baseDomain ' + self.clusterName + '.' + self.baseDomain + ' must be at most 241 characters: konnectivity.<domain> must fit into 253'"
// +kubebuilder:validation:XValidation:rule="!['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'kubernetes.default.svc.cluster.local'].exists(a, a == self.clusterName + '.' + self.baseDomain || a.endsWith('.' + self.clusterName + '.' + self.baseDomain))",messageExpression="'dns.clusterName.baseDomain ' + self.clusterName + '.' + self.baseDomain + ' shadows a service alias of Kubernetes'"
// +kubebuilder:validation:XValidation:rule="!('.' + self.baseDomain).endsWith('.cluster.local')",messageExpression="'dns.baseDomain ' + self.baseDomain + ' lies in cluster.local'"
type AttachmentDNS struct {
	// clusterName is the first part of the domain.
	// +required
	// +kubebuilder:validation:MaxLength=63
	ClusterName DomainName `json:"clusterName"`
	// baseDomain is the rest of it.
	// +required
	BaseDomain DomainName `json:"baseDomain"`
}

// ExternalService is a LoadBalancer Service on the management cluster.
type ExternalService struct {
	// enabled makes the Service.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// addressPoolName pins a MetalLB pool.
	// +optional
	AddressPoolName ObjectName `json:"addressPoolName,omitempty"`
	// labels of the Service; others stay as they are.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the Service; others stay as they are.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// AppsIngress installs MetalLB in the hosted cluster and routes *.apps.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || !self.enabled || (has(self.metallb) && has(self.metallb.addressPoolName) && has(self.metallb.ipAddressPoolRange))",message="appsIngress.metallb.addressPoolName and ipAddressPoolRange are required when appsIngress.enabled is true"
type AppsIngress struct {
	// enabled brings *.apps to the VLAN.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// metallb gives the load balancer its address.
	// +optional
	MetalLB AppsMetalLB `json:"metallb,omitzero"`
	// service is the LoadBalancer in the hosted cluster.
	// +optional
	// +kubebuilder:default={}
	Service AppsService `json:"service,omitzero"`
	// ports of the VLAN.
	// +optional
	// +kubebuilder:default={}
	Ports AppsPorts `json:"ports,omitzero"`
}

// AppsMetalLB is the pool in the hosted cluster.
type AppsMetalLB struct {
	// addressPoolName of the IPAddressPool that is made.
	// +optional
	AddressPoolName ObjectName `json:"addressPoolName,omitempty"`
	// ipAddressPoolRange of unused addresses on the VLAN.
	// +optional
	IPAddressPoolRange IPv4Range `json:"ipAddressPoolRange,omitempty"`
	// l2AdvertisementName defaults to "advertise-<addressPoolName>".
	// +optional
	L2AdvertisementName ObjectName `json:"l2AdvertisementName,omitempty"`
	// gratuitousARPInterval is how often MetalLB's speakers announce the address
	// anew, 1s to 1h, for switches that forget sooner than neighbours do; without
	// it they announce on changes only. It is spec.speakerGratuitousARPInterval of
	// the MetalLB that oooi makes, where the hosted cluster's metallb-operator knows
	// that field; elsewhere it is without effect, and the status says so.
	// +optional
	GratuitousARPInterval ARPInterval `json:"gratuitousARPInterval,omitempty"`
	// operator says where MetalLB is installed from.
	// +optional
	// +kubebuilder:default={}
	Operator AppsMetalLBOperator `json:"operator,omitzero"`
}

// ARPInterval is a Go duration in whole seconds.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(h|m|s))+$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",messageExpression="'gratuitousARPInterval ' + self + ' must be a duration in whole seconds between 1s and 1h, such as 1m'"
type ARPInterval string

// AppsMetalLBOperator is where MetalLB's operator comes from.
type AppsMetalLBOperator struct {
	// source is the CatalogSource.
	// +optional
	// +kubebuilder:default=redhat-operators
	Source ObjectName `json:"source,omitempty"`
	// sourceNamespace of the CatalogSource.
	// +optional
	// +kubebuilder:default=openshift-marketplace
	SourceNamespace NamespaceName `json:"sourceNamespace,omitempty"`
	// channel of the package.
	// +optional
	// +kubebuilder:default=stable
	// +kubebuilder:validation:MaxLength=63
	Channel string `json:"channel,omitempty"`
	// package that holds MetalLB's operator.
	// +optional
	// +kubebuilder:default=metallb-operator
	Package ObjectName `json:"package,omitempty"`
}

// AppsService is the LoadBalancer Service in the hosted cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || (!('metallb.universe.tf/address-pool' in self.annotations) && !('metallb.io/address-pool' in self.annotations))",message="appsIngress.service.annotations must not hold metallb.universe.tf/address-pool or metallb.io/address-pool: they are made from metallb.addressPoolName"
type AppsService struct {
	// name of the Service.
	// +optional
	// +kubebuilder:default=oooi-ingress
	Name NamespaceName `json:"name,omitempty"`
	// namespace of the Service: the ingress controller's.
	// +optional
	// +kubebuilder:default=openshift-ingress
	Namespace NamespaceName `json:"namespace,omitempty"`
	// annotations of the Service; others stay as they are.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// labels of the Service; others stay as they are.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// AppsPorts are the ports of the VLAN that *.apps is served on. 9901,
// 9090-9099 and 20000-20999 are the proxy's own.
//
// +kubebuilder:validation:XValidation:rule="!has(self.http) || !(self.http in [53, 443, 6443])",messageExpression="'appsIngress.ports.http ' + (self.http == 53 ? '53' : self.http == 443 ? '443' : '6443') + ' must not be 53, 443 or 6443'"
// +kubebuilder:validation:XValidation:rule="!has(self.https) || !(self.https in [53, 80, 6443])",messageExpression="'appsIngress.ports.https ' + (self.https == 53 ? '53' : self.https == 80 ? '80' : '6443') + ' must not be 53, 80 or 6443'"
// +kubebuilder:validation:XValidation:rule="!has(self.http) || !has(self.https) || self.http != self.https",messageExpression="'appsIngress.ports.http and https must differ, both are ' + (self.http >= 10000 ? (self.http / 10000 % 10 == 0 ? '0' : self.http / 10000 % 10 == 1 ? '1' : self.http / 10000 % 10 == 2 ? '2' : self.http / 10000 % 10 == 3 ? '3' : self.http / 10000 % 10 == 4 ? '4' : self.http / 10000 % 10 == 5 ? '5' : self.http / 10000 % 10 == 6 ? '6' : self.http / 10000 % 10 == 7 ? '7' : self.http / 10000 % 10 == 8 ? '8' : '9') : \"\") + (self.http >= 1000 ? (self.http / 1000 % 10 == 0 ? '0' : self.http / 1000 % 10 == 1 ? '1' : self.http / 1000 % 10 == 2 ? '2' : self.http / 1000 % 10 == 3 ? '3' : self.http / 1000 % 10 == 4 ? '4' : self.http / 1000 % 10 == 5 ? '5' : self.http / 1000 % 10 == 6 ? '6' : self.http / 1000 % 10 == 7 ? '7' : self.http / 1000 % 10 == 8 ? '8' : '9') : \"\") + (self.http >= 100 ? (self.http / 100 % 10 == 0 ? '0' : self.http / 100 % 10 == 1 ? '1' : self.http / 100 % 10 == 2 ? '2' : self.http / 100 % 10 == 3 ? '3' : self.http / 100 % 10 == 4 ? '4' : self.http / 100 % 10 == 5 ? '5' : self.http / 100 % 10 == 6 ? '6' : self.http / 100 % 10 == 7 ? '7' : self.http / 100 % 10 == 8 ? '8' : '9') : \"\") + (self.http >= 10 ? (self.http / 10 % 10 == 0 ? '0' : self.http / 10 % 10 == 1 ? '1' : self.http / 10 % 10 == 2 ? '2' : self.http / 10 % 10 == 3 ? '3' : self.http / 10 % 10 == 4 ? '4' : self.http / 10 % 10 == 5 ? '5' : self.http / 10 % 10 == 6 ? '6' : self.http / 10 % 10 == 7 ? '7' : self.http / 10 % 10 == 8 ? '8' : '9') : \"\") + (self.http % 10 == 0 ? '0' : self.http % 10 == 1 ? '1' : self.http % 10 == 2 ? '2' : self.http % 10 == 3 ? '3' : self.http % 10 == 4 ? '4' : self.http % 10 == 5 ? '5' : self.http % 10 == 6 ? '6' : self.http % 10 == 7 ? '7' : self.http % 10 == 8 ? '8' : '9')"
// +kubebuilder:validation:XValidation:rule="!has(self.http) || (self.http != 9901 && !(self.http >= 9090 && self.http <= 9099) && !(self.http >= 20000 && self.http <= 20999))",messageExpression="'appsIngress.ports.http ' + (self.http >= 10000 ? (self.http / 10000 % 10 == 0 ? '0' : self.http / 10000 % 10 == 1 ? '1' : self.http / 10000 % 10 == 2 ? '2' : self.http / 10000 % 10 == 3 ? '3' : self.http / 10000 % 10 == 4 ? '4' : self.http / 10000 % 10 == 5 ? '5' : self.http / 10000 % 10 == 6 ? '6' : self.http / 10000 % 10 == 7 ? '7' : self.http / 10000 % 10 == 8 ? '8' : '9') : \"\") + (self.http >= 1000 ? (self.http / 1000 % 10 == 0 ? '0' : self.http / 1000 % 10 == 1 ? '1' : self.http / 1000 % 10 == 2 ? '2' : self.http / 1000 % 10 == 3 ? '3' : self.http / 1000 % 10 == 4 ? '4' : self.http / 1000 % 10 == 5 ? '5' : self.http / 1000 % 10 == 6 ? '6' : self.http / 1000 % 10 == 7 ? '7' : self.http / 1000 % 10 == 8 ? '8' : '9') : \"\") + (self.http >= 100 ? (self.http / 100 % 10 == 0 ? '0' : self.http / 100 % 10 == 1 ? '1' : self.http / 100 % 10 == 2 ? '2' : self.http / 100 % 10 == 3 ? '3' : self.http / 100 % 10 == 4 ? '4' : self.http / 100 % 10 == 5 ? '5' : self.http / 100 % 10 == 6 ? '6' : self.http / 100 % 10 == 7 ? '7' : self.http / 100 % 10 == 8 ? '8' : '9') : \"\") + (self.http >= 10 ? (self.http / 10 % 10 == 0 ? '0' : self.http / 10 % 10 == 1 ? '1' : self.http / 10 % 10 == 2 ? '2' : self.http / 10 % 10 == 3 ? '3' : self.http / 10 % 10 == 4 ? '4' : self.http / 10 % 10 == 5 ? '5' : self.http / 10 % 10 == 6 ? '6' : self.http / 10 % 10 == 7 ? '7' : self.http / 10 % 10 == 8 ? '8' : '9') : \"\") + (self.http % 10 == 0 ? '0' : self.http % 10 == 1 ? '1' : self.http % 10 == 2 ? '2' : self.http % 10 == 3 ? '3' : self.http % 10 == 4 ? '4' : self.http % 10 == 5 ? '5' : self.http % 10 == 6 ? '6' : self.http % 10 == 7 ? '7' : self.http % 10 == 8 ? '8' : '9') + ' must not be 9901, 9090-9099 or 20000-20999'"
// +kubebuilder:validation:XValidation:rule="!has(self.https) || (self.https != 9901 && !(self.https >= 9090 && self.https <= 9099) && !(self.https >= 20000 && self.https <= 20999))",messageExpression="'appsIngress.ports.https ' + (self.https >= 10000 ? (self.https / 10000 % 10 == 0 ? '0' : self.https / 10000 % 10 == 1 ? '1' : self.https / 10000 % 10 == 2 ? '2' : self.https / 10000 % 10 == 3 ? '3' : self.https / 10000 % 10 == 4 ? '4' : self.https / 10000 % 10 == 5 ? '5' : self.https / 10000 % 10 == 6 ? '6' : self.https / 10000 % 10 == 7 ? '7' : self.https / 10000 % 10 == 8 ? '8' : '9') : \"\") + (self.https >= 1000 ? (self.https / 1000 % 10 == 0 ? '0' : self.https / 1000 % 10 == 1 ? '1' : self.https / 1000 % 10 == 2 ? '2' : self.https / 1000 % 10 == 3 ? '3' : self.https / 1000 % 10 == 4 ? '4' : self.https / 1000 % 10 == 5 ? '5' : self.https / 1000 % 10 == 6 ? '6' : self.https / 1000 % 10 == 7 ? '7' : self.https / 1000 % 10 == 8 ? '8' : '9') : \"\") + (self.https >= 100 ? (self.https / 100 % 10 == 0 ? '0' : self.https / 100 % 10 == 1 ? '1' : self.https / 100 % 10 == 2 ? '2' : self.https / 100 % 10 == 3 ? '3' : self.https / 100 % 10 == 4 ? '4' : self.https / 100 % 10 == 5 ? '5' : self.https / 100 % 10 == 6 ? '6' : self.https / 100 % 10 == 7 ? '7' : self.https / 100 % 10 == 8 ? '8' : '9') : \"\") + (self.https >= 10 ? (self.https / 10 % 10 == 0 ? '0' : self.https / 10 % 10 == 1 ? '1' : self.https / 10 % 10 == 2 ? '2' : self.https / 10 % 10 == 3 ? '3' : self.https / 10 % 10 == 4 ? '4' : self.https / 10 % 10 == 5 ? '5' : self.https / 10 % 10 == 6 ? '6' : self.https / 10 % 10 == 7 ? '7' : self.https / 10 % 10 == 8 ? '8' : '9') : \"\") + (self.https % 10 == 0 ? '0' : self.https % 10 == 1 ? '1' : self.https % 10 == 2 ? '2' : self.https % 10 == 3 ? '3' : self.https % 10 == 4 ? '4' : self.https % 10 == 5 ? '5' : self.https % 10 == 6 ? '6' : self.https % 10 == 7 ? '7' : self.https % 10 == 8 ? '8' : '9') + ' must not be 9901, 9090-9099 or 20000-20999'"
type AppsPorts struct {
	// http is routed by Host.
	// +optional
	// +kubebuilder:default=80
	HTTP Port `json:"http,omitempty"`
	// https is routed by server name.
	// +optional
	// +kubebuilder:default=443
	HTTPS Port `json:"https,omitempty"`
}

// InfraClusterAttachmentStatus is what the operator saw and did.
type InfraClusterAttachmentStatus struct {
	// conditions of the attachment; Programmed is the Infra controller's, every
	// other one the attachment controller's.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration that the operator last reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// domain is "<clusterName>.<baseDomain>".
	// +optional
	Domain DomainName `json:"domain,omitempty"`
	// controlPlaneNamespace in use.
	// +optional
	ControlPlaneNamespace NamespaceName `json:"controlPlaneNamespace,omitempty"`
	// observed facts of the hosted cluster; the last good ones where a fact
	// cannot be read.
	// +optional
	Observed ObservedFacts `json:"observed,omitzero"`
	// appsIngressStatus is the state of *.apps.
	// +optional
	AppsIngressStatus *AppsIngressStatus `json:"appsIngressStatus,omitempty"`
}

// ObservedFacts is what the attachment controller read.
type ObservedFacts struct {
	// hostedClusterUID of the admitted HostedCluster.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	HostedClusterUID string `json:"hostedClusterUID,omitempty"`
	// services of the control plane.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Services []ObservedService `json:"services,omitempty"`
	// workers and their addresses, sorted by address and machine.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	Workers []ObservedWorker `json:"workers,omitempty"`
	// machines are the virtual machines of the cluster's workers, by name, in
	// the control-plane namespace: the lease of one counts as a worker's address.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	// +kubebuilder:validation:items:MaxLength=253
	Machines []string `json:"machines,omitempty"`
	// ranges of the hosted cluster's own networks.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=43
	Ranges []string `json:"ranges,omitempty"`
}

// ServiceRole says which endpoint of the control plane a Service is.
//
// +kubebuilder:validation:Enum=APIServer;OAuth;Ignition;Konnectivity
type ServiceRole string

// The roles of the control plane's Services.
const (
	ServiceRoleAPIServer    ServiceRole = "APIServer"
	ServiceRoleOAuth        ServiceRole = "OAuth"
	ServiceRoleIgnition     ServiceRole = "Ignition"
	ServiceRoleKonnectivity ServiceRole = "Konnectivity"
)

// ObservedService is a Service of the control plane.
type ObservedService struct {
	// role of the Service.
	// +required
	Role ServiceRole `json:"role"`
	// name of the Service.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// clusterIP of the Service.
	// +required
	ClusterIP IPv4 `json:"clusterIP"`
	// port of the Service.
	// +required
	Port Port `json:"port"`
	// targetPort that a NetworkPolicy has to allow: a number or a name.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	TargetPort string `json:"targetPort,omitempty"`
}

// ObservedWorker is a worker's address.
type ObservedWorker struct {
	// address of the worker.
	// +required
	Address IPv4 `json:"address"`
	// machine by name, in the control-plane namespace.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine"`
	// lastSeen is set while the address is missing from its source and held.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
}

// AppsPhase is a value of AppsIngressStatus.Phase.
//
// +kubebuilder:validation:Enum=Pending;Ready;Degraded
type AppsPhase string

// The phases of the apps ingress.
const (
	AppsPhasePending  AppsPhase = "Pending"
	AppsPhaseReady    AppsPhase = "Ready"
	AppsPhaseDegraded AppsPhase = "Degraded"
)

// AppsIngressStatus is the state of *.apps.
type AppsIngressStatus struct {
	// phase of *.apps.
	// +optional
	Phase AppsPhase `json:"phase,omitempty"`
	// reason in CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// message in words.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// externalIP of the Service.
	// +optional
	ExternalIP IPv4 `json:"externalIP,omitempty"`
	// externalHostname of the Service, where it has no address.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ExternalHostname string `json:"externalHostname,omitempty"`
	// lastSync is when the endpoint was last seen to change.
	// +optional
	LastSync *metav1.Time `json:"lastSync,omitempty"`
	// applied are the objects that were made in the hosted cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Applied []AppliedObject `json:"applied,omitempty"`
	// appliedIn is the hosted cluster that they were made in.
	// +optional
	AppliedIn AppliedIn `json:"appliedIn,omitzero"`
}

// AppliedIn identifies a hosted cluster, and where it is reached.
type AppliedIn struct {
	// namespace of the HostedCluster.
	// +optional
	Namespace NamespaceName `json:"namespace,omitempty"`
	// name of the HostedCluster.
	// +optional
	Name ObjectName `json:"name,omitempty"`
	// uid of the HostedCluster.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// controlPlaneNamespace of the hosted cluster.
	// +optional
	ControlPlaneNamespace NamespaceName `json:"controlPlaneNamespace,omitempty"`
	// service of the API server in that namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Service string `json:"service,omitempty"`
	// port of that Service.
	// +optional
	Port Port `json:"port,omitempty"`
}

// AppliedObject identifies an object in the hosted cluster.
type AppliedObject struct {
	// apiVersion of the object.
	// +required
	// +kubebuilder:validation:MaxLength=128
	APIVersion string `json:"apiVersion"`
	// kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}
