package world_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/world"
)

func attachment(uid string, generation, observed int64) v1alpha1.InfraClusterAttachment {
	a := v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: "u", Generation: generation}}
	a.Status.ObservedGeneration = observed
	return a
}

func posted(generation int64, cluster string) *v1alpha1.InfraClusterAttachment {
	a := attachment("a", generation, generation)
	a.Status.Observed.HostedClusterUID = cluster
	a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionProgrammed, Message: "old"}}
	return &a
}

// What is posted counts until it is written, and never longer.
func TestWhatIsPostedCountsUntilItIsWritten(t *testing.T) {
	t.Parallel()
	b := world.NewBoard(time.Now)
	b.Post(t.Context(), posted(2, "hc"))
	stored := attachment("a", 2, 1)
	stored.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgrammed, Message: "new"}}
	list := []v1alpha1.InfraClusterAttachment{stored}
	over := b.Over(list)
	require.Equal(t, "hc", over[0].Status.Observed.HostedClusterUID)
	require.Equal(t, int64(2), over[0].Status.ObservedGeneration)
	require.Equal(t, []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionProgrammed, Message: "new"}},
		over[0].Status.Conditions, "the Infra controller's condition is the stored one")
	require.Empty(t, list[0].Status.Observed.HostedClusterUID, "the cache's own objects are not changed")

	for name, other := range map[string]v1alpha1.InfraClusterAttachment{
		"of a later generation": attachment("a", 3, 1), "another one": {ObjectMeta: metav1.ObjectMeta{UID: "v", Generation: 2}},
	} {
		require.Equal(t, other, b.Over([]v1alpha1.InfraClusterAttachment{other})[0], name)
	}
	written := attachment("a", 2, 2)
	require.Equal(t, written, b.Over([]v1alpha1.InfraClusterAttachment{written})[0], "what is written counts")
	require.Equal(t, list, b.Over(list), "and what was posted is forgotten")
}

// A list that was read before an attachment came does not make the board forget it.
func TestAPostOutlivesListsThatAreOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := world.NewBoard(time.Now)
		b.Post(t.Context(), posted(2, "hc"))
		list := []v1alpha1.InfraClusterAttachment{attachment("a", 2, 1)}
		b.Over(nil)
		require.Equal(t, "hc", b.Over(list)[0].Status.Observed.HostedClusterUID)
		<-time.After(2 * time.Minute)
		b.Over(nil)
		require.Equal(t, list, b.Over(list), "what is gone is forgotten in the end")
	})
}

// The same facts again are no news; time counts from the first of a generation.
func TestNewsIsWhatIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := world.NewBoard(time.Now)
		news := func() int {
			n := 0
			for len(b.News()) > 0 {
				<-b.News()
				n++
			}
			return n
		}
		require.Zero(t, b.Post(t.Context(), posted(1, "hc")))
		require.Equal(t, 1, news())
		<-time.After(3 * time.Second)
		require.Equal(t, 3*time.Second, b.Post(t.Context(), posted(1, "hc")))
		require.Zero(t, news())
		require.Equal(t, 3*time.Second, b.Post(t.Context(), posted(1, "another")))
		require.Equal(t, 1, news())
		require.Zero(t, b.Post(t.Context(), posted(2, "another")))
		require.Equal(t, 1, news())
		ended, end := context.WithCancel(t.Context())
		end()
		for range 2000 {
			b.Post(ended, posted(time.Now().UnixNano(), "hc"))
			<-time.After(time.Millisecond)
		}
	})
}
