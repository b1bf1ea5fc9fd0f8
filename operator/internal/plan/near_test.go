package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/plan"
)

// refsOf are what the attachments refer to.
func refsOf(list []plan.Attachment) []plan.Ref {
	out := make([]plan.Ref, 0, len(list))
	for _, a := range list {
		ref := a.Spec.HostedClusterRef
		out = append(out, plan.Ref{
			Attachment:    a.Key,
			Infra:         plan.Key{Namespace: a.Namespace, Name: string(a.Spec.InfraRef.Name)},
			HostedCluster: plan.Key{Namespace: string(ref.Namespace), Name: string(ref.Name)},
		})
	}
	return out
}

// behaviours A9, F0, F4: what does not count changes nothing.
func TestThePlanIsTheSameWithoutAttachmentsThatDoNotCount(t *testing.T) {
	t.Parallel()
	left := 0
	for seed := range uint64(300) {
		in := world(seed, 3+int(seed%40))
		counting := plan.Counting(in, refsOf(in.Attachments))
		few := in
		few.Attachments = nil
		for i, a := range in.Attachments {
			if counting[i] {
				few.Attachments = append(few.Attachments, a)
			} else {
				left++
			}
		}
		require.Equal(t, plan.For(in), plan.For(few), "seed %d", seed)
	}
	require.Positive(t, left, "some do not count")
}
