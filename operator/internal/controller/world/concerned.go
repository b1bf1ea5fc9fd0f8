package world

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
)

// ByInfra are the Infras whose plans an Infra may change: those on its network,
// and those that want a HostedCluster of one of its attachments.
func (r *Reader) ByInfra(ctx context.Context, infra *v1alpha1.Infra) ([]types.NamespacedName, error) {
	w, err := r.networks(ctx)
	if err != nil {
		return nil, err
	}
	found := facts.Neighbours(w, infra)
	own, err := AttachmentsBy(ctx, r.cached, IndexInfra, infra.Namespace+"/"+infra.Name)
	if err != nil {
		return nil, err
	}
	for i := range own {
		if err := r.sharing(ctx, &own[i], found); err != nil {
			return nil, err
		}
	}
	return names(found), nil
}

// ByAttachment are the Infras whose plans an attachment may change: those on the
// network of its Infra, or of one that has it on record, and those that want its
// HostedCluster.
func (r *Reader) ByAttachment(ctx context.Context, a *v1alpha1.InfraClusterAttachment) ([]types.NamespacedName, error) {
	w, err := r.networks(ctx)
	if err != nil {
		return nil, err
	}
	found := map[plan.Key]bool{}
	for i := range w.Infras {
		infra := &w.Infras[i]
		if infra.Namespace != a.Namespace || infra.Name != string(a.Spec.InfraRef.Name) && !onRecord(infra, a.Name) {
			continue
		}
		for key := range facts.Neighbours(w, infra) {
			found[key] = true
		}
	}
	err = r.sharing(ctx, a, found)
	return names(found), err
}

// networks reads what tells which Infras are neighbours.
func (r *Reader) networks(ctx context.Context) (facts.World, error) {
	w := facts.World{Unreadable: map[string]bool{}}
	var infras v1alpha1.InfraList
	if err := r.cached.List(ctx, &infras, client.UnsafeDisableDeepCopy); err != nil {
		return w, fmt.Errorf("listing Infras: %w", err)
	}
	w.Infras = infras.Items
	return w, r.networkAttachments(ctx, &w)
}

// sharing adds the Infras of the attachments of the same HostedCluster.
func (r *Reader) sharing(ctx context.Context, a *v1alpha1.InfraClusterAttachment, to map[plan.Key]bool) error {
	others, err := AttachmentsBy(ctx, r.cached, IndexHostedCluster, facts.ClusterOf(a).String())
	for i := range others {
		to[plan.Key{Namespace: others[i].Namespace, Name: string(others[i].Spec.InfraRef.Name)}] = true
	}
	return err
}

func onRecord(infra *v1alpha1.Infra, attachment string) bool {
	return slices.ContainsFunc(infra.Status.InForce, func(r v1alpha1.AttachmentInForce) bool { return string(r.Attachment) == attachment })
}

func names(keys map[plan.Key]bool) []types.NamespacedName {
	out := make([]types.NamespacedName, 0, len(keys))
	for k := range keys {
		out = append(out, types.NamespacedName{Namespace: k.Namespace, Name: k.Name})
	}
	return out
}
