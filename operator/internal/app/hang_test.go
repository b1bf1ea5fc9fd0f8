package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/app"
	"github.com/densityops/oooi/operator/internal/apply"
	attachments "github.com/densityops/oooi/operator/internal/controller/attachment"
	"github.com/densityops/oooi/operator/internal/controller/coalesce"
	"github.com/densityops/oooi/operator/internal/controller/ingress"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/policy"
	controllerworld "github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// forget removes what nobody could remove from a hosted cluster that says nothing.
func forget(t *testing.T, applied []v1alpha1.AppliedObject) {
	t.Helper()
	for _, o := range applied {
		require.NoError(t, client.IgnoreNotFound(env.Client.Delete(t.Context(), inHosted(o))))
	}
}

// case C45 (b), behaviour B6: a hosted API server that takes connections and says
// nothing holds up no order of deletions once its HostedCluster is gone.
func TestEveryDeletionOrderEndsCleanWhereTheHostedClusterHangs(t *testing.T) {
	orders := withoutNamespace()
	var controlPlanes []string
	for i := range orders {
		controlPlanes = append(controlPlanes, fmt.Sprintf("clusters%d-hangs%d", 230+i, i))
	}
	hosts, options := appsOn(t, controlPlanes...)
	env.Operator(t, options)
	for i, order := range orders {
		t.Run(strings.Join(order, " then "), func(t *testing.T) {
			t.Parallel()
			w, applied := withApps(t, hosts, 230+i, fmt.Sprintf("hangs%d", i))
			hosts.hang(t, controlPlanes[i])
			removed(t, w, order, true)
			forget(t, applied)
		})
	}
}

// case C45 (b), behaviour B6: one whose HostedCluster stays holds up the deletion of its
// attachment for ten minutes and no longer, and the attachment says so meanwhile. The
// API server and the silence are real, the ten minutes are not.
func TestAHostedClusterThatHangsHoldsUpADeletionForTenMinutes(t *testing.T) {
	const controlPlane = "clusters240-silent"
	hosts, options := appsOn(t, controlPlane)
	operator := env.Operator(t, options)
	w, applied := withApps(t, hosts, 240, "silent")
	require.NoError(t, operator.Stop())
	hosts.hang(t, controlPlane)

	a := w.attachments[0]
	require.NoError(t, env.Client.Delete(t.Context(), a))
	var skipped time.Duration
	clock := func() time.Time { return time.Now().Add(skipped) }
	controller := attachmentsBy(t, hosts, clock)
	began, tries := clock(), 0
	for ; ; tries++ {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(a), a)
		if apierrors.IsNotFound(err) {
			break
		}
		require.NoError(t, err)
		require.LessOrEqual(t, clock().Sub(began), 10*time.Minute+25*time.Second)
		if tries > 0 {
			degraded := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionDegraded)
			require.NotNil(t, degraded, "the deletion says what holds it up")
			require.Equal(t, metav1.ConditionTrue, degraded.Status)
			require.Equal(t, v1alpha1.ReasonHostedClusterAccessFailed, degraded.Reason)
		}
		result, err := controller.Reconcile(t.Context(), a)
		require.NoError(t, err)
		if skipped += result.RequeueAfter; tries == 1 {
			skipped += 9 * time.Minute // all tries are alike, and each takes its time
		}
	}
	require.GreaterOrEqual(t, clock().Sub(began), 10*time.Minute)
	require.GreaterOrEqual(t, tries, 3)
	require.NoError(t, env.Gone(t.Context(), controlPlanePolicy(w.clusters[0])), "what the management cluster holds is taken back")
	forget(t, applied)
}

// attachmentsBy is the controller of attachments as the operator has it, by a clock.
func attachmentsBy(t *testing.T, hosts *tenants, clock func() time.Time) *attachments.Controller {
	t.Helper()
	config, err := env.As(t.Context(), testenv.Namespace, testenv.ServiceAccount)
	require.NoError(t, err)
	scheme, err := app.Scheme()
	require.NoError(t, err)
	hub, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = scheme
		o.Client = client.Options{Cache: &client.CacheOptions{Unstructured: true, DisableFor: []client.Object{&corev1.Secret{}}}}
	})
	require.NoError(t, err)
	require.NoError(t, controllerworld.AddIndexes(t.Context(), hub.GetFieldIndexer()))
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	served := kinds.New(disco, hub.GetCache(), slog.New(slog.DiscardHandler), kinds.All()...)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- hub.Start(ctx) }()
	go func() { done <- served.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
	require.True(t, hub.GetCache().WaitForCacheSync(ctx))
	c, live := hub.GetClient(), hub.GetAPIReader()
	applier := apply.New(c, live)
	reader := controllerworld.New(c, served, controllerworld.NewHubNetworks(live, clock), controllerworld.NewBoard(clock))
	return &attachments.Controller{
		Client: c, Applier: applier, World: reader, Policies: &policy.Policies{Applier: applier, World: reader},
		Apps: ingress.New(hosted.New(live, scheme, hosts.dial), live, clock), Gatherer: coalesce.New(clock), Clock: clock,
	}
}
