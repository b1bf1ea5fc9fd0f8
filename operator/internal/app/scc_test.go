package app_test

import (
	"testing"

	securityv1 "github.com/openshift/api/security/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/app"
	"github.com/densityops/oooi/operator/internal/render"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// behaviour B2: with --scc=minimal the operator makes DHCP's own constraints, with
// its own rights, and allows no more than raw frames.
func TestDHCPConstraintsAreMade(t *testing.T) {
	require.NoError(t, env.Install(t.Context(), testenv.OpenShift))
	config, err := env.As(t.Context(), testenv.Namespace, testenv.ServiceAccount)
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, securityv1.AddToScheme(scheme))
	operator, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	require.NoError(t, app.EnsureDHCPConstraints(t.Context(), operator))
	made := &securityv1.SecurityContextConstraints{}
	require.NoError(t, operator.Get(t.Context(), client.ObjectKey{Name: render.SCCName}, made))
	require.Equal(t, []corev1.Capability{"NET_RAW"}, made.AllowedCapabilities)
	require.False(t, made.AllowPrivilegedContainer || made.AllowHostNetwork || made.AllowHostPorts || made.AllowHostPID || made.AllowHostIPC || made.AllowHostDirVolumePlugin)
	require.Empty(t, made.Users)
	require.Empty(t, made.Groups)

	require.NoError(t, app.EnsureDHCPConstraints(t.Context(), operator))
	again := &securityv1.SecurityContextConstraints{}
	require.NoError(t, operator.Get(t.Context(), client.ObjectKey{Name: render.SCCName}, again))
	require.Equal(t, made.ResourceVersion, again.ResourceVersion, "behaviour B8: the same again writes nothing")
}
