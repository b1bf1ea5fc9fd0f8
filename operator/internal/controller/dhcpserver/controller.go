package dhcpserver

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/workload"
	"github.com/densityops/oooi/operator/internal/render"
)

// Kind says what is particular about a DHCPServer.
func Kind() workload.Kind[*v1alpha1.DHCPServer] {
	return workload.Kind[*v1alpha1.DHCPServer]{
		Component: render.ComponentDHCP,
		Rank:      2,
		New:       func() *v1alpha1.DHCPServer { return &v1alpha1.DHCPServer{} },
		List:      list,
		Encode:    agent.EncodeDHCP,
		Render:    render.DHCP,
		Status:    func(c *v1alpha1.DHCPServer) *v1alpha1.ComponentStatus { return &c.Status.ComponentStatus },
		Agent:     reported,
		InForce:   inForce,
		Network:   network,
		Fence:     fence,
		Scopes:    scopes,
	}
}

func list(ctx context.Context, r client.Reader, opts ...client.ListOption) ([]*v1alpha1.DHCPServer, error) {
	var found v1alpha1.DHCPServerList
	if err := r.List(ctx, &found, opts...); err != nil {
		return nil, err
	}
	out := make([]*v1alpha1.DHCPServer, 0, len(found.Items))
	for i := range found.Items {
		out = append(out, &found.Items[i])
	}
	return out, nil
}

func reported(c *v1alpha1.DHCPServer) *v1alpha1.AgentStatus {
	if c.Status.Agent == nil {
		return nil
	}
	return &c.Status.Agent.AgentStatus
}

func inForce(c *v1alpha1.DHCPServer) string {
	if c.Status.Agent == nil {
		return ""
	}
	return c.Status.Agent.ObservedVersion
}

func network(c *v1alpha1.DHCPServer) (types.NamespacedName, string) {
	n := c.Spec.NetworkConfig
	nad := types.NamespacedName{Namespace: string(n.NetworkAttachmentNamespace), Name: string(n.NetworkAttachmentName)}
	if nad.Namespace == "" {
		nad.Namespace = c.Namespace
	}
	return nad, string(n.ServerIP)
}

// fence: the SCC of the reference allows NET_ADMIN, the SCC of our own does not.
func fence(o render.Options) bool { return !o.OpenShift || o.SCC == render.SCCReference }

// scopes reach beyond the namespace: VirtualMachineInstances are read where
// they live, and an SCC of our own is the cluster's.
func scopes(c *v1alpha1.DHCPServer) []apply.Scope {
	return append(workload.OwnScopes(c.Namespace), workload.ForeignScopes()...)
}
