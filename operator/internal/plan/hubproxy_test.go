package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// hazard 241: a management cluster with an HTTP proxy needs an exception for the VLAN.
func TestAHubProxyWithoutTheVLANIsNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		proxy plan.HubProxy
		want  bool
	}{
		{"no proxy", plan.HubProxy{}, false},
		{"exceptions for others", plan.HubProxy{Used: true, NoProxy: []string{".svc", "10.128.0.0/14", "192.0.3.0/24", ""}}, true},
		{"the VLAN", plan.HubProxy{Used: true, NoProxy: []string{".svc", " 192.0.2.0/24"}}, false},
		{"a network around it", plan.HubProxy{Used: true, NoProxy: []string{"192.0.0.0/16"}}, false},
		{"a part of it", plan.HubProxy{Used: true, NoProxy: []string{"192.0.2.0/25"}}, true},
		{"everything", plan.HubProxy{Used: true, NoProxy: []string{"*"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan.For(plan.Inputs{Infra: vlan(), HubProxy: tt.proxy})
			c := meta.FindStatusCondition(p.Conditions(), v1alpha1.ConditionDegraded)
			require.Equal(t, tt.want, c.Reason == v1alpha1.ReasonHubProxyLacksVLAN)
			require.Equal(t, plan.Apply, p.DHCP.Action, "nothing is withheld for it")
			if tt.want {
				require.Contains(t, c.Message, "add 192.0.2.0/24 to its spec.noProxy")
			}
		})
	}
}
