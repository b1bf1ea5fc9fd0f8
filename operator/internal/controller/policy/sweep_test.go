package policy_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/policy"
)

var errAway = errors.New("the API server is away")

// once fails the first write that is asked for while *armed.
func once(armed *bool) func() error {
	return func() error {
		if !*armed {
			return nil
		}
		*armed = false
		return errAway
	}
}

func (h *hub) sweep(t *testing.T, namespace string) reconcile.Result {
	t.Helper()
	sweeper := &policy.Sweeper{Policies: h.Policies}
	res, err := sweeper.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: namespace}})
	require.NoError(t, err)
	return res
}

// behaviour B11: what could not be taken back is taken back later, though by then no
// status tells any more that it is to be.
func TestWhatCouldNotBeTakenBackIsTakenBackLater(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		others []*v1alpha1.InfraClusterAttachment
		letsIn []string
	}{
		{"nobody else needs the policy", nil, nil},
		{"another attachment needs it too", []*v1alpha1.InfraClusterAttachment{attached("owner", "hc", "shared", "shared")}, []string{"owner"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			armed := false
			leaver := attached("leaver", "hc", "shared", "shared")
			h := newHub(t, once(&armed), []string{"owner", "leaver"}, append(c.others, leaver)...)
			require.NoError(t, h.Settle(t.Context(), "shared", nil))
			require.Contains(t, h.tenantsOf(t, "shared"), "leaver")
			withdrawn := leaver.DeepCopy()
			withdrawn.Status.Observed.HostedClusterUID = ""
			armed = true
			require.ErrorIs(t, h.Settle(t.Context(), "shared", withdrawn), errAway)
			require.NoError(t, h.Status().Update(t.Context(), stored(t, h, withdrawn)))
			h.sweep(t, "shared")
			require.Equal(t, c.letsIn, h.tenantsOf(t, "shared"))
		})
	}
}

// stored is an attachment with the version that the API server has.
func stored(t *testing.T, h *hub, a *v1alpha1.InfraClusterAttachment) *v1alpha1.InfraClusterAttachment {
	t.Helper()
	now := &v1alpha1.InfraClusterAttachment{}
	require.NoError(t, h.Get(t.Context(), client.ObjectKeyFromObject(a), now))
	a = a.DeepCopy()
	a.ResourceVersion = now.ResourceVersion
	return a
}

// behaviour B11: an attachment that was never admitted keeps nobody's policy.
func TestWhoWasNeverAdmittedKeepsNoPolicy(t *testing.T) {
	t.Parallel()
	owner, other := attached("owner", "hc", "left", "left"), attached("other", "", "left", "left")
	h := newHub(t, works, []string{"owner", "other"}, owner, other)
	require.NoError(t, h.Settle(t.Context(), "left", nil))
	h.sweep(t, "left")
	require.Equal(t, []string{"owner"}, h.tenantsOf(t, "left"), "it is its attachment's to keep")
	require.NoError(t, h.Delete(t.Context(), owner))
	h.sweep(t, "left")
	require.Empty(t, h.tenantsOf(t, "left"))
}

// behaviours B8, B11, F0: what an attachment's own pass has found out counts before what
// is written of it.
func TestTheWordOfAnAttachmentsOwnPassCountsFirst(t *testing.T) {
	t.Parallel()
	owner := attached("owner", "hc", "shared", "shared")

	// It is let in, and the status that says so is not written yet.
	early := attached("early", "", "shared", "shared")
	h := newHub(t, works, []string{"early"}, early)
	now := early.DeepCopy()
	now.Status.Observed.HostedClusterUID = "hc"
	require.NoError(t, h.Settle(t.Context(), "shared", now))
	require.Positive(t, h.sweep(t, "shared").RequeueAfter)
	require.Equal(t, []string{"early"}, h.tenantsOf(t, "shared"))

	// It is let in no longer, and the status still says so.
	late := attached("late", "hc", "shared", "shared")
	h = newHub(t, works, []string{"owner", "late"}, owner, late)
	require.NoError(t, h.Settle(t.Context(), "shared", owner))
	require.Equal(t, []string{"late", "owner"}, h.tenantsOf(t, "shared"))
	now = late.DeepCopy()
	now.Status.Observed.HostedClusterUID = ""
	require.NoError(t, h.Settle(t.Context(), "shared", now))
	require.NoError(t, h.Settle(t.Context(), "shared", owner))
	require.Equal(t, []string{"owner"}, h.tenantsOf(t, "shared"))
}
