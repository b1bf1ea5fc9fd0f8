package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// hazard 35: new workers that find no address stop an upgrade, so it is said
// before they are up.
func TestTooFewAddressesForTheWorkersAreNamed(t *testing.T) {
	t.Parallel()
	machines := func(names ...string) func(*plan.Attachment) {
		return func(a *plan.Attachment) { a.Machines = names }
	}
	bound := func(namespace, vm, ip string) plan.Binding {
		return plan.Binding{Address: addr(ip), VM: plan.Key{Namespace: namespace, Name: vm}}
	}
	old := []plan.Binding{bound("clusters-a", "old-1", "192.0.2.100"), bound("clusters-a", "old-2", "192.0.2.101"), {Address: addr("192.0.2.102")}}
	a := func(names ...string) plan.Attachment {
		return cluster("a", 0, machines(append([]string{"old-1", "old-2"}, names...)...))
	}
	for _, tt := range []struct {
		name        string
		attachments []plan.Attachment
		pool        plan.Pool
		want        string
	}{
		{"nothing is reported yet", []plan.Attachment{a("new-1", "new-2")}, plan.Pool{}, ""},
		{"every worker has its lease and nothing is free", []plan.Attachment{a()}, plan.Pool{Total: 3}, ""},
		{"enough for the new ones", []plan.Attachment{a("new-1", "new-2")}, plan.Pool{Total: 5, Free: 2}, ""},
		{"an upgrade that replaces all", []plan.Attachment{a("new-1", "new-2")}, plan.Pool{Total: 4, Free: 1}, "lacks 1 addresses"},
		{
			"another cluster's workers of the same names",
			[]plan.Attachment{a(), cluster("b", 1, machines("old-1", "old-2"))},
			plan.Pool{Total: 3},
			"lacks 2 addresses",
		},
		{
			"workers of a cluster that is not served", []plan.Attachment{a(), cluster("b", 1, machines("old-1"), func(a *plan.Attachment) {
				a.Refusal, a.HostedClusterUID = plan.Reason{Reason: v1alpha1.ReasonHostedClusterRefNotPermitted, Message: "no"}, ""
			})}, plan.Pool{Total: 3}, "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan.For(plan.Inputs{Infra: vlan(), Attachments: tt.attachments, Bindings: old, Pool: tt.pool})
			c := meta.FindStatusCondition(p.Conditions(), v1alpha1.ConditionDegraded)
			require.Equal(t, tt.want != "", c.Reason == v1alpha1.ReasonTooFewAddresses, c.Message)
			require.Contains(t, c.Message, tt.want)
			require.True(t, meta.IsStatusConditionTrue(p.Conditions(), v1alpha1.ConditionReady), "nothing is withheld for it")
		})
	}
}

// hazard 35: the words do not change while workers get their leases.
func TestTheShortageIsTheSameWhileLeasesAreGiven(t *testing.T) {
	t.Parallel()
	in := plan.Inputs{Infra: vlan(), Pool: plan.Pool{Total: 2, Free: 2}, Attachments: []plan.Attachment{
		cluster("a", 0, func(a *plan.Attachment) { a.Machines = []string{"w-1", "w-2", "w-3"} }),
	}}
	before := meta.FindStatusCondition(plan.For(in).Conditions(), v1alpha1.ConditionDegraded)
	require.Equal(t, v1alpha1.ReasonTooFewAddresses, before.Reason)
	in.Pool.Free = 1
	in.Bindings = []plan.Binding{{Address: addr("192.0.2.100"), VM: plan.Key{Namespace: "clusters-a", Name: "w-1"}}}
	require.Equal(t, before, meta.FindStatusCondition(plan.For(in).Conditions(), v1alpha1.ConditionDegraded))
}
