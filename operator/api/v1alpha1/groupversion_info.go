package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind here.
var GroupVersion = schema.GroupVersion{Group: "hostedcluster.densityops.com", Version: "v1alpha1"}

// SchemeBuilder collects the functions that add this API to a scheme.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds every kind here to a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

// Kinds as they appear in apiVersion/kind pairs and owner references.
const (
	KindInfra                  = "Infra"
	KindInfraClusterAttachment = "InfraClusterAttachment"
	KindDHCPServer             = "DHCPServer"
	KindDNSServer              = "DNSServer"
	KindProxyServer            = "ProxyServer"
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Infra{}, &InfraList{},
		&InfraClusterAttachment{}, &InfraClusterAttachmentList{},
		&DHCPServer{}, &DHCPServerList{},
		&DNSServer{}, &DNSServerList{},
		&ProxyServer{}, &ProxyServerList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
