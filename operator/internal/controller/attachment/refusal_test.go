package attachment_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/hosted"
)

// says is what holds up the deletion.
func (d *deletion) says(t *testing.T) string {
	t.Helper()
	a := &v1alpha1.InfraClusterAttachment{}
	require.NoError(t, d.Get(t.Context(), client.ObjectKeyFromObject(d.attachment), a))
	return meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady).Message
}

// behaviour B8: a hosted cluster that words its refusal differently each time does not
// cost a write each time.
func TestARefusalInOtherWordsIsNotWrittenEachTime(t *testing.T) {
	d := newDeletion(t, true, 10*time.Second)
	told := map[string]bool{}
	for {
		d.apps.err = fmt.Errorf("no, for the %dth time", d.apps.tries)
		if d.try(t) {
			break
		}
		told[d.says(t)] = true
	}
	require.Greater(t, d.apps.tries, 20)
	require.GreaterOrEqual(t, len(told), 4)
	require.LessOrEqual(t, len(told), 6, "%v", told)
}

// hazard 214, behaviour B6: a hosted cluster that was not asked, because too many
// others are, is not given up for that, says what it said before, and is asked soon.
func TestAHostedClusterThatWasNotAskedIsNotGivenUp(t *testing.T) {
	d := newDeletion(t, true, time.Millisecond)
	d.apps.err = hosted.ErrNotAsked
	for range 100 {
		require.False(t, d.try(t))
	}
	d.apps.err = errors.New("refused")
	require.False(t, d.try(t))
	said, before := d.says(t), d.now
	d.apps.err = hosted.ErrNotAsked
	require.False(t, d.try(t))
	require.Equal(t, said, d.says(t))
	require.LessOrEqual(t, d.now.Sub(before), 6*time.Second)
}
