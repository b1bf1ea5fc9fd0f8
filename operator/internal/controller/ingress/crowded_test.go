package ingress_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/ingress"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
)

// hazard 214, behaviours B6, G4: that there is no place for a hosted cluster's answer is
// our bound and no fault of it. It is as before, not slow, and asked again soon; where
// there is a place it is read.
func TestAnAnswerWithoutAPlaceIsNoFaultOfTheHostedCluster(t *testing.T) {
	scheme := hostedScheme(t)
	var asked atomic.Int32
	secret, dial := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/nodes":
			asked.Add(1)
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[` + strings.Repeat(" ", 1<<20) + `]}`))
		case "/api/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node","verbs":["list"]}]}`))
		case "/api":
			_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
		default:
			http.NotFound(w, r)
		}
	})
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).Build()
	clients := hosted.New(hub, scheme, dial)
	a := attachment()
	var works []*hosted.Work
	for port := range uint16(2) {
		to := hosted.Target{Tenant: a.Namespace, Namespace: controlPlane, Service: "kube-apiserver", Port: 7000 + port}
		works = append(works, clients.Begin(to))
		c, err := clients.For(t.Context(), to)
		require.NoError(t, err)
		require.NoError(t, c.List(t.Context(), &corev1.NodeList{}))
	}
	before := asked.Load()

	waited := time.Hour
	step := ingress.New(clients, hub, time.Now).Aside(func(_ types.NamespacedName, f func() time.Duration) bool {
		waited = f()
		return true
	})
	f := facts.Attachment{ControlPlaneNamespace: controlPlane, Admitted: true, Observed: v1alpha1.ObservedFacts{Services: apiServices()}}
	served := v1alpha1.AppsIngressStatus{
		Phase: v1alpha1.AppsPhaseReady, Reason: v1alpha1.ReasonReconciliationSucceeded, ExternalIP: "192.0.2.200",
		Applied:   []v1alpha1.AppliedObject{{APIVersion: "v1", Kind: "Service", Namespace: "openshift-ingress", Name: "oooi-ingress", UID: "u"}},
		AppliedIn: facts.HostedCluster(a, controlPlane, f.Observed),
	}
	a.Status.AppsIngressStatus, a.Status.ObservedGeneration = served.DeepCopy(), a.Generation
	after, err := step.Ensure(t.Context(), a, f, recorded())
	require.NoError(t, err)
	require.Equal(t, before+1, asked.Load())
	require.Equal(t, served, *a.Status.AppsIngressStatus)
	require.LessOrEqual(t, after, 5*time.Second)
	require.Less(t, waited, 2*time.Second, "that we wait for a place is not counted")
	require.ErrorIs(t, step.Remove(t.Context(), a), hosted.ErrNotAsked)

	for _, w := range works {
		w.End()
	}
	_, err = step.Ensure(t.Context(), a, f, recorded())
	require.ErrorContains(t, err, "no worker of the hosted cluster is Ready")
}
