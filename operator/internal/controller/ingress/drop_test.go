package ingress_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/ingress"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
)

// behaviour B10: nothing is kept of a hosted cluster that was left, also where it was
// gone before, with its Secret, nor of where its API server was before.
func TestAHostedClusterThatWasLeftIsForgotten(t *testing.T) {
	c, a := newCluster(t), attachment()
	clients := hosted.New(c.hub, c.hub.Scheme(), c.way.dial)
	c.step = ingress.New(clients, c.hub, func() time.Time { return c.now })
	at := func(port v1alpha1.Port) hosted.Target {
		return hosted.Target{Tenant: a.Namespace, Namespace: controlPlane, Service: "kube-apiserver", Port: uint16(port)}
	}
	known := func(port v1alpha1.Port) client.Client {
		made, err := clients.For(t.Context(), at(port))
		require.NoError(t, err)
		return made
	}
	ensure := func(port v1alpha1.Port) {
		services := apiServices()
		services[0].Port = port
		f := facts.Attachment{ControlPlaneNamespace: controlPlane, Admitted: true, Observed: v1alpha1.ObservedFacts{Services: services}}
		_, err := c.step.Ensure(t.Context(), a, f, recorded())
		require.ErrorContains(t, err, "no worker of the hosted cluster is Ready")
		require.Equal(t, 1, c.step.Known())
	}
	ensure(6443)
	first := known(6443)
	ensure(6443)
	require.Same(t, first, known(6443))
	ensure(7443)
	require.NotSame(t, first, known(6443))
	last := known(7443)

	secret := &corev1.Secret{}
	require.NoError(t, c.hub.Get(t.Context(), client.ObjectKey{Namespace: controlPlane, Name: "service-network-admin-kubeconfig"}, secret))
	require.NoError(t, c.hub.Delete(t.Context(), secret))
	a.Status.AppsIngressStatus.Applied = []v1alpha1.AppliedObject{{APIVersion: "v1", Kind: "Service", Namespace: "openshift-ingress", Name: "oooi-ingress", UID: "u"}}
	require.Error(t, c.step.Remove(t.Context(), a))
	c.step.Drop(a)
	require.Zero(t, c.step.Known())
	secret.ResourceVersion = ""
	require.NoError(t, c.hub.Create(t.Context(), secret))
	require.NotSame(t, last, known(7443))
}
