package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// The labels of what the operator makes.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	LabelInstance  = "app.kubernetes.io/instance"
	// LabelInfra names the Infra of a child and of its pods.
	LabelInfra = "hostedcluster.densityops.com/infra"
	// LabelOwner ties an object to the resource that it was made for, also
	// where an owner reference cannot: across namespaces.
	LabelOwner = "hostedcluster.densityops.com/owner"
	// LabelNetworkPolicyGroup on a namespace lets its proxy pods into control
	// planes (behaviour B11).
	LabelNetworkPolicyGroup = "hostedcluster.densityops.com/network-policy-group"

	// ManagedBy is the value of LabelManagedBy and LabelPartOf.
	ManagedBy = "oooi"
	// NetworkPolicyGroup is the value of LabelNetworkPolicyGroup.
	NetworkPolicyGroup = "infrastructure"
)

// Identity are the labels that every object made for owner carries, and no
// object that was made for another one does. Names may be longer than a label
// may be, so the owner's is hashed.
func Identity(owner Object) map[string]string {
	kind := ""
	switch owner.(type) {
	case *v1alpha1.Infra:
		kind = "infra"
	case *v1alpha1.InfraClusterAttachment:
		kind = "attachment"
	case *v1alpha1.DHCPServer:
		kind = "dhcpserver"
	case *v1alpha1.DNSServer:
		kind = "dnsserver"
	case *v1alpha1.ProxyServer:
		kind = "proxyserver"
	default:
		panic(fmt.Sprintf("a %T owns nothing", owner))
	}
	sum := sha256.Sum256([]byte(owner.GetNamespace() + "/" + owner.GetName()))
	return map[string]string{
		LabelManagedBy: ManagedBy,
		LabelOwner:     kind + "-" + hex.EncodeToString(sum[:10]),
	}
}
