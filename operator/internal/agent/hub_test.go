package agent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1 "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// oneChild is a cache that holds one DNSServer.
type oneChild struct {
	client.Reader
	child *v1alpha1.DNSServer
}

func (r oneChild) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*v1alpha1.DNSServer) = *r.child
	return nil
}

// A child's status changes more often than its spec: the snapshot is made again
// for the spec alone, and for another child of the same name.
func TestASnapshotIsMadeOncePerGeneration(t *testing.T) {
	t.Parallel()
	child := &v1alpha1.DNSServer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a-dns", UID: "u1", Generation: 1}}
	made := 0
	hub := NewHub(oneChild{child: child}, func(o client.Object) (*agentv1.Snapshot, error) {
		made++
		return &agentv1.Snapshot{Child: &agentv1.Child{Uid: string(o.GetUID()), Generation: o.GetGeneration()}}, nil
	})
	k := childKey{ComponentDNS, types.NamespacedName{Namespace: "ns", Name: "a-dns"}}
	var sent *agentv1.Snapshot
	for _, step := range []struct {
		name   string
		change func()
		made   int
	}{
		{"a new stream", func() {}, 1},
		{"the status changes", func() { child.Status.SnapshotVersion = "sha256:1" }, 1},
		{"the spec changes", func() { child.Generation = 2 }, 2},
		{"another child of the same name", func() { child.UID = "u2" }, 3},
	} {
		step.change()
		snapshot, err := hub.snapshot(t.Context(), k, sent)
		require.NoError(t, err, step.name)
		require.Equal(t, child.Generation, snapshot.GetChild().GetGeneration(), step.name)
		require.Equal(t, step.made, made, step.name)
		sent = snapshot
	}
}
