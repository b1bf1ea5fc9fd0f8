package proxyserver

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

// Kind says what is particular about a ProxyServer.
func Kind() workload.Kind[*v1alpha1.ProxyServer] {
	return workload.Kind[*v1alpha1.ProxyServer]{
		Component: render.ComponentProxy,
		Rank:      0,
		New:       func() *v1alpha1.ProxyServer { return &v1alpha1.ProxyServer{} },
		List:      list,
		Encode:    agent.EncodeProxy,
		Render:    render.Proxy,
		Status:    func(c *v1alpha1.ProxyServer) *v1alpha1.ComponentStatus { return &c.Status.ComponentStatus },
		Agent:     reported,
		InForce:   inForce,
		Network:   network,
		Fence:     fence,
		Scopes:    scopes,
	}
}

func list(ctx context.Context, r client.Reader, opts ...client.ListOption) ([]*v1alpha1.ProxyServer, error) {
	var found v1alpha1.ProxyServerList
	if err := r.List(ctx, &found, opts...); err != nil {
		return nil, err
	}
	out := make([]*v1alpha1.ProxyServer, 0, len(found.Items))
	for i := range found.Items {
		out = append(out, &found.Items[i])
	}
	return out, nil
}

func reported(c *v1alpha1.ProxyServer) *v1alpha1.AgentStatus {
	if c.Status.Agent == nil {
		return nil
	}
	return &c.Status.Agent.AgentStatus
}

// inForce is what Envoy has accepted, not what its manager has heard of.
func inForce(c *v1alpha1.ProxyServer) string {
	if c.Status.Agent == nil {
		return ""
	}
	return c.Status.Agent.AcceptedVersion
}

func network(c *v1alpha1.ProxyServer) (types.NamespacedName, string) {
	n := c.Spec.NetworkConfig
	nad := types.NamespacedName{Namespace: string(n.NetworkAttachmentNamespace), Name: string(n.NetworkAttachmentName)}
	if nad.Namespace == "" {
		nad.Namespace = c.Namespace
	}
	return nad, string(n.ServerIP)
}

// fence: the SCC of the reference allows NET_ADMIN, restricted-v2 does not.
func fence(o render.Options) bool { return !o.OpenShift || o.SCC == render.SCCReference }

func scopes(c *v1alpha1.ProxyServer) []apply.Scope { return workload.OwnScopes(c.Namespace) }
