package dnsserver

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

// Kind says what is particular about a DNSServer.
func Kind() workload.Kind[*v1alpha1.DNSServer] {
	return workload.Kind[*v1alpha1.DNSServer]{
		Component: render.ComponentDNS,
		Rank:      1,
		New:       func() *v1alpha1.DNSServer { return &v1alpha1.DNSServer{} },
		List:      list,
		Encode:    agent.EncodeDNS,
		Render:    render.DNS,
		Status:    func(c *v1alpha1.DNSServer) *v1alpha1.ComponentStatus { return &c.Status.ComponentStatus },
		Agent:     reported,
		InForce:   inForce,
		Network:   network,
		Fence:     fence,
		Scopes:    scopes,
	}
}

func list(ctx context.Context, r client.Reader, opts ...client.ListOption) ([]*v1alpha1.DNSServer, error) {
	var found v1alpha1.DNSServerList
	if err := r.List(ctx, &found, opts...); err != nil {
		return nil, err
	}
	out := make([]*v1alpha1.DNSServer, 0, len(found.Items))
	for i := range found.Items {
		out = append(out, &found.Items[i])
	}
	return out, nil
}

func reported(c *v1alpha1.DNSServer) *v1alpha1.AgentStatus {
	if c.Status.Agent == nil {
		return nil
	}
	return &c.Status.Agent.AgentStatus
}

func inForce(c *v1alpha1.DNSServer) string {
	if c.Status.Agent == nil {
		return ""
	}
	return c.Status.Agent.ObservedVersion
}

func network(c *v1alpha1.DNSServer) (types.NamespacedName, string) {
	n := c.Spec.NetworkConfig
	nad := types.NamespacedName{Namespace: string(n.NetworkAttachmentNamespace), Name: string(n.NetworkAttachmentName)}
	if nad.Namespace == "" {
		nad.Namespace = c.Namespace
	}
	return nad, string(n.ServerIP)
}

// fence: neither anyuid nor restricted-v2 allows NET_ADMIN.
func fence(o render.Options) bool { return !o.OpenShift }

func scopes(c *v1alpha1.DNSServer) []apply.Scope { return workload.OwnScopes(c.Namespace) }
