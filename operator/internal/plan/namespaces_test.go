package plan_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/plan"
)

// behaviour F4: a group is judged within each namespace by its policy, whatever
// strangers do; between namespaces the one that was first stays.
func TestStrangersHaveNoSayInANamespacesConflicts(t *testing.T) {
	t.Parallel()
	strangers := plan.Inputs{Infra: vlan(), Siblings: []plan.Infra{strange(elsewhere("other", "vlan100", "198.51.100", noDHCP))}}
	theirs := func(name, of2 string, day int) plan.Attachment {
		return cluster(name, day, domain(of2), created(day), of("other"), stranger)
	}
	first, second := cluster("a", 0, created(2)), cluster("b", 1, domain("a"), created(3))
	both := map[string]string{"a": "DuplicateHostname", "b": "DuplicateHostname"}
	for _, tt := range []struct {
		name        string
		infra       plan.Infra
		attachments []plan.Attachment
		want        map[string]string
	}{
		{"two of ours are both out", vlan(), []plan.Attachment{first, second}, both},
		{"and still are beside a later stranger", vlan(), []plan.Attachment{first, second, theirs("s", "a", 4)}, both},
		{"and beside an earlier one", vlan(), []plan.Attachment{first, second, theirs("s", "a", 1)}, both},
		{"and beside one that only one of them collides with", vlan(), []plan.Attachment{first, second, theirs("s", "x.a", 4)}, both},
		{"one in force is out too", serving(vlan(), "a"), []plan.Attachment{first, second, theirs("s", "a", 4)}, both},
		{"with KeepOldest the oldest of ours stays", vlan(keepOldest), []plan.Attachment{first, second, theirs("s", "a", 4)}, map[string]string{"b": "DuplicateHostname"}},
		{"unless a stranger was there before", vlan(keepOldest), []plan.Attachment{first, second, theirs("s", "a", 1)}, both},
		{
			"two strangers exclude each other, and us if they were first", vlan(),
			[]plan.Attachment{first, theirs("s", "a", 1), theirs("t", "a", 3)},
			map[string]string{"a": "DuplicateHostname"},
		},
		{"and not if they come later", vlan(), []plan.Attachment{first, theirs("s", "a", 3), theirs("t", "a", 4)}, map[string]string{}},
		{
			"two of ours that only a stranger joins are judged alone", vlan(),
			[]plan.Attachment{cluster("a", 0, domain("x.p"), created(2)), cluster("b", 1, domain("y.p"), created(2)), theirs("s", "p", 4)},
			map[string]string{},
		},
		{
			"a stranger that has the parent domain first has all below it", vlan(),
			[]plan.Attachment{cluster("a", 0, domain("x.p"), created(2)), cluster("b", 1, domain("y.p"), created(2)), theirs("s", "p", 1)},
			both,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := strangers
			in.Infra, in.Attachments = tt.infra, tt.attachments
			require.Equal(t, tt.want, verdicts(plan.For(in)))
		})
	}
}

// behaviour F4: what two of ours have made each other lose is not free for a
// stranger: it would be in force by the time that ours is put right.
func TestWhatAPolicyHasExcludedIsNotAStrangers(t *testing.T) {
	t.Parallel()
	theirs := strange(elsewhere("other", "vlan100", "198.51.100", noDHCP))
	in := plan.Inputs{Infra: theirs, Siblings: []plan.Infra{vlan()}, Attachments: []plan.Attachment{
		cluster("a", 0, created(2)), cluster("b", 1, domain("a"), created(3)),
		cluster("s", 4, domain("a"), created(4), of("other"), stranger),
	}}
	require.Equal(t, map[string]string{"s": "DuplicateHostname"}, verdicts(plan.For(in)))
}

// behaviour F4: with ExcludeAll, strangers that come and go change no verdict from
// left out to let in.
func TestStrangersNeverLetAnythingIn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(80) {
		in := world(seed, 8)
		in.Infra.Spec.ConflictPolicy, in.Infra.InForce = "", nil
		alone := verdicts(plan.For(in))
		in.Siblings = append(slices.Clone(in.Siblings), strange(elsewhere("other", "vlan100", "203.0.113", noDHCP)))
		for i, d := range []string{"shared", "x.shared", "c1", "c3", "y.c2"} {
			name := "s" + string(rune('0'+i))
			in.Attachments = append(in.Attachments, cluster(name, 40+i, domain(d), created(1+int(seed)%6), of("other"), stranger))
		}
		with := verdicts(plan.For(in))
		require.Subset(t, slices.Collect(maps.Keys(with)), slices.Collect(maps.Keys(alone)), "world %d", seed)
		require.Equal(t, text(t, plan.For(in)), text(t, plan.For(shuffled(in, seed))), "world %d", seed)
	}
}
