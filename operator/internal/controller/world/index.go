package world

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
)

// The indexes of attachments in the informer cache.
const (
	IndexInfra         = "oooi.infra"
	IndexHostedCluster = "oooi.hostedCluster"
	IndexControlPlane  = "oooi.controlPlane"
)

// AddIndexes adds them. Caller must call it before the cache starts.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, value := range map[string]func(*v1alpha1.InfraClusterAttachment) string{
		IndexInfra: func(a *v1alpha1.InfraClusterAttachment) string {
			return a.Namespace + "/" + string(a.Spec.InfraRef.Name)
		},
		IndexHostedCluster: func(a *v1alpha1.InfraClusterAttachment) string { return facts.ClusterOf(a).String() },
		IndexControlPlane:  facts.ControlPlaneOf,
	} {
		err := indexer.IndexField(ctx, &v1alpha1.InfraClusterAttachment{}, name, func(o client.Object) []string {
			return []string{value(o.(*v1alpha1.InfraClusterAttachment))}
		})
		if err != nil {
			return fmt.Errorf("indexing attachments: %w", err)
		}
	}
	return nil
}

// AttachmentsBy lists attachments by an index. The objects are the cache's own:
// caller must not change them.
func AttachmentsBy(ctx context.Context, r client.Reader, index, value string) ([]v1alpha1.InfraClusterAttachment, error) {
	var list v1alpha1.InfraClusterAttachmentList
	if err := r.List(ctx, &list, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing attachments: %w", err)
	}
	return list.Items, nil
}

// RequestsFor names attachments.
func RequestsFor(attachments []v1alpha1.InfraClusterAttachment) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(attachments))
	for _, a := range attachments {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: a.Name}})
	}
	return out
}
