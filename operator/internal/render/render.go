package render

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/images"
	"github.com/densityops/oooi/operator/internal/plan"
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
	Hub    string
	HubCA  []byte
	Images images.Set
	// Snapshot of the child, gzipped protojson.
	Snapshot []byte
}

// Children are the children of an Infra that its plan applies.
func Children(infra *v1alpha1.Infra, p plan.Plan) []Object {
	return nil
}

// DHCP is the workload of a DHCPServer.
func DHCP(child *v1alpha1.DHCPServer, o Options) []Object {
	return nil
}

// DNS is the workload of a DNSServer.
func DNS(child *v1alpha1.DNSServer, o Options) []Object {
	return nil
}

// Proxy is the workload of a ProxyServer.
func Proxy(child *v1alpha1.ProxyServer, o Options) []Object {
	return nil
}
