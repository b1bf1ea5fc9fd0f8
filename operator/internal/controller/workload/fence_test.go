package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/render"
)

// behaviour B5: --fence=on and off decide alone; auto puts the fence in where the
// namespace's Pod Security and the SCC that is bound admit it.
func TestWhetherTheFenceIsInThePod(t *testing.T) {
	t.Parallel()
	openShift := render.Options{OpenShift: true, SCC: render.SCCReference}
	for _, tc := range []struct {
		name    string
		mode    FenceMode
		enforce string
		options render.Options
		want    bool
	}{
		{name: "auto, and no Pod Security", mode: FenceAuto, want: true},
		{name: "auto, and a privileged namespace", mode: FenceAuto, enforce: "privileged", want: true},
		{name: "auto, and a baseline namespace", mode: FenceAuto, enforce: "baseline"},
		{name: "auto, and a restricted namespace", mode: FenceAuto, enforce: "restricted"},
		{name: "auto, and an SCC that does not admit it", mode: FenceAuto, enforce: "privileged", options: openShift},
		{name: "on, whatever the namespace says", mode: FenceOn, enforce: "restricted", options: openShift, want: true},
		{name: "off, though it would be admitted", mode: FenceOff, enforce: "privileged"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "infra"}}
			if tc.enforce != "" {
				ns.Labels = map[string]string{enforceLabel: tc.enforce}
			}
			c := &Controller[*v1alpha1.DNSServer]{Kind: DNS(), Fence: tc.mode, Client: fake.NewClientBuilder().WithObjects(ns).Build()}
			got, err := c.fence(t.Context(), &v1alpha1.DNSServer{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "vlan-dns"}}, tc.options)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}
