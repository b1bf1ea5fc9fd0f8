package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/render"
)

// behaviour B13: a child that goes while its pod starts holds up no other one, and no
// upgrade of the operator.
func TestWhatHasGoneRollsOutNoLonger(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	child := func(uid string) *v1alpha1.DNSServer {
		d := &v1alpha1.DNSServer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a-dns", Labels: map[string]string{render.LabelInfra: "a"}}}
		d.UID = types.UID(uid)
		return d
	}
	for _, c := range []struct {
		name string
		// there is what the cache has by then; nil: nothing.
		there  *v1alpha1.DNSServer
		goes   func(*Controller[*v1alpha1.DNSServer])
		active bool
	}{
		{"it goes", nil, func(c *Controller[*v1alpha1.DNSServer]) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			(&afterwards{gone: c.gone}).Delete(t.Context(), event.DeleteEvent{Object: child("u")}, q)
			require.Equal(t, 1, q.Len())
		}, false},
		{"it goes while it is worked at", nil, func(c *Controller[*v1alpha1.DNSServer]) { c.wentMeanwhile(t.Context(), child("u")) }, false},
		{"another one is there by the end of the work", child("other"), func(c *Controller[*v1alpha1.DNSServer]) { c.wentMeanwhile(t.Context(), child("u")) }, false},
		{"it stays", child("u"), func(c *Controller[*v1alpha1.DNSServer]) { c.wentMeanwhile(t.Context(), child("u")) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock := &clock{now: time.Unix(1000, 0)}
			b := fake.NewClientBuilder().WithScheme(scheme)
			if c.there != nil {
				b = b.WithObjects(c.there)
			}
			controller := &Controller[*v1alpha1.DNSServer]{Kind: DNS(), Client: b.Build(), Rollouts: NewRollouts(clock.read)}
			controller.Rollouts.Seen(controller.rolloutKey(child("u")), true, clock.now)
			require.True(t, controller.Rollouts.Active())
			c.goes(controller)
			require.Equal(t, c.active, controller.Rollouts.Active())
		})
	}
}
