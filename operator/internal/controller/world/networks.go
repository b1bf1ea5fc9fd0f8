package world

import (
	"context"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/facts"
)

// networkAttachments reads the NetworkAttachmentDefinitions. Where they cannot be
// read, what was known of them last counts: the DHCP servers of Infras record it
// (behaviour F0).
func (r *Reader) networkAttachments(ctx context.Context, w *facts.World) error {
	var nads nadv1.NetworkAttachmentDefinitionList
	if r.optional(ctx, w, kinds.NetworkAttachmentDefinition, &nads) {
		w.NetworkAttachments = nads.Items
		return nil
	}
	var servers v1alpha1.DHCPServerList
	if err := r.cached.List(ctx, &servers, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing DHCPServers: %w", err)
	}
	w.NetworkAttachments = lastKnown(servers.Items)
	return nil
}

// lastKnown are the NetworkAttachmentDefinitions that DHCP servers of Infras are on:
// those of one server are one network, and so are servers that share one.
func lastKnown(servers []v1alpha1.DHCPServer) []nadv1.NetworkAttachmentDefinition {
	var out []nadv1.NetworkAttachmentDefinition
	network := map[v1alpha1.NetworkAttachment]string{}
	for i := range servers {
		s := &servers[i]
		owner := metav1.GetControllerOf(s)
		if owner == nil || owner.Kind != v1alpha1.KindInfra {
			continue
		}
		name := s.Namespace + "/" + s.Name
		for _, n := range s.Spec.NetworkAttachments {
			if known, found := network[n]; found {
				name = known
			}
		}
		for _, n := range s.Spec.NetworkAttachments {
			if _, found := network[n]; found {
				continue
			}
			network[n] = name
			out = append(out, nadv1.NetworkAttachmentDefinition{
				ObjectMeta: metav1.ObjectMeta{Namespace: string(n.Namespace), Name: string(n.Name)},
				Spec: nadv1.NetworkAttachmentDefinitionSpec{
					Config: fmt.Sprintf(`{"name":%q,"mtu":%d}`, name, s.Spec.NetworkConfig.MTU),
				},
			})
		}
	}
	return out
}
