package render

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/densityops/oooi/operator/internal/images"
)

// Object is a Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// SCC is a value of --scc.
type SCC string

// The ways to give pods their rights on OpenShift.
const (
	// SCCReference binds privileged (DHCP, proxy) and anyuid (DNS).
	SCCReference SCC = "reference"
	// SCCMinimal binds nothing for DNS and the proxy, and an SCC of our own for
	// DHCP.
	SCCMinimal SCC = "minimal"
)

// Options are what the operator was started with, and what it read for one
// child.
type Options struct {
	// OpenShift renders SCC RoleBindings.
	OpenShift bool
	SCC       SCC
	// Fence puts the fence init container into the pod.
	Fence bool
	// Hub is the address of the operator's gRPC server, HubCA its bundle (PEM).
	Hub   string
	HubCA []byte
	// HubIP is the ClusterIP of the hub's Service: the DNS pod, which resolves
	// with the node's resolvers, cannot look it up.
	HubIP  string
	Images images.Set
	// Snapshot of the child, gzipped protojson.
	Snapshot []byte
}

// givenIDs: the cluster gives the pod its user and group, and a template that
// names others is refused (restricted-v2).
func (o Options) givenIDs(component string) bool {
	return o.OpenShift && o.SCC == SCCMinimal && component != ComponentDHCP
}

// AllowsFence says whether the SCC of a component's pod admits the fence:
// privileged does; anyuid, restricted-v2 and our own do not (behaviour B5).
func AllowsFence(component string, o Options) bool {
	if !o.OpenShift {
		return true
	}
	return o.SCC != SCCMinimal && component != ComponentDNS
}
