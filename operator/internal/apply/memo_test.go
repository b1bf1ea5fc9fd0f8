package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// behaviour B8: of two writes of one object that end in another order than they were
// made in, the later one is what is remembered.
func TestALateAnswerIsNotWhatIsRemembered(t *testing.T) {
	t.Parallel()
	written := func(revision string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: revision}}
	}
	k := key{kind: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), name: types.NamespacedName{Name: "p"}}
	first, second := [32]byte{1}, [32]byte{2}
	a := New(nil, nil)
	a.remember(k, second, written("12"))
	a.remember(k, first, written("11"))
	require.True(t, a.unchanged(k, second, written("12")))
	require.False(t, a.unchanged(k, first, written("12")), "what is there is the second write's")

	a.remember(k, first, written("13"))
	require.True(t, a.unchanged(k, first, written("13")))
	anew := written("5")
	anew.UID = "v"
	a.remember(k, second, anew)
	require.True(t, a.unchanged(k, second, anew), "another object of the name begins anew")
}
