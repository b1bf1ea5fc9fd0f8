package proxy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spoiled is a manager whose translator is wrong and does not look at what it made:
// its matchers name no regex engine, which Envoy refuses.
func (w *world) spoiled() string {
	w.t.Helper()
	root, err := repository()
	require.NoError(w.t, err)
	replace := map[string]string{}
	for i, change := range []struct{ file, old, new string }{
		{"internal/envoy/matcher.go", "EngineType: &xdsmatcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &xdsmatcherv3.RegexMatcher_GoogleRE2{}},\n", "\n"},
		{"internal/translate/check.go", "\treturn c.faults\n", "\treturn nil\n"},
	} {
		file := filepath.Join(root, "xds-manager", change.file)
		source, err := os.ReadFile(file)
		require.NoError(w.t, err)
		require.Equal(w.t, 1, strings.Count(string(source), change.old), "make the fault anew: %s", file)
		replace[file] = w.Path(string(rune('a'+i)) + ".go")
		require.NoError(w.t, os.WriteFile(replace[file], []byte(strings.Replace(string(source), change.old, change.new, 1)), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(w.Path("overlay.json"), overlay, 0o600))
	out := w.Path("xds-manager-spoiled")
	require.NoError(w.t, buildManager(w.t.Context(), root, out, "-overlay", w.Path("overlay.json")))
	return out
}

// behaviour E9, H4; hazards 190, 191; case C38c to the letter: a manager that sends
// what Envoy refuses has it said in the resource, in Envoy's words and within 30 s, does
// not send it again and again, and costs nobody a connection.
func TestAMatcherWithoutAnEngineIsRefusedAndChangesNothing(t *testing.T) {
	const told, pushes = 30 * time.Second, 10 * time.Second
	c := newClustered(t)
	c.settled("Envoy's acceptance is in the status")
	held := c.open(3, WorkerA, 6443, Named(""), "a-api")
	held = append(held, c.open(3, WorkerB, 443, Named(fqdn("oauth", "b")), "b-oauth")...)
	versions := c.inForceByEnvoy()
	spoiled := c.spoiled()
	good := c.manager

	require.NoError(t, c.Manager.Kill())
	c.manager = spoiled
	began := time.Now()
	require.NoError(t, c.StartManager())
	// Envoy quotes the listener before it says why, and sends no more than 4 KiB; the
	// reason is in its log then, and the message says where to look.
	words := func(message string) bool {
		return strings.Contains(message, `envoy rejected "vlan-192.0.2.4-443"`) && strings.Contains(message, `stat_prefix: "vlan_443"`) &&
			strings.Contains(message, "its log has them whole")
	}
	c.shows(told, "Envoy's refusal is in the status, and the operator's condition", func(r Resource) bool {
		reported, condition := false, false
		for _, p := range r.Status.Agent.Problems {
			reported = reported || p.Reason == "ConfigRejected" && words(p.Message)
		}
		for _, cond := range r.Status.Conditions {
			condition = condition || cond.Reason == "ConfigRejected" && cond.Status != "True" && words(cond.Message)
		}
		return reported && condition
	})
	t.Logf("the condition has Envoy's words %s after the start of the manager", time.Since(began))
	require.Len(t, c.resource().Status.Agent.Problems, 1, "the one listener that has such a matcher")
	c.within(told, "Envoy's log has the reason", func() bool {
		return strings.Contains(c.Envoy.Output(), `field: "engine_type", reason: is required`)
	})

	// Long enough for a loop to be seen.
	c.within(5*pushes, "three pushes' time", func() bool {
		require.LessOrEqual(t, c.metric(`oooi_xds_nacks_total{type="listener"}`), 1+time.Since(began).Seconds()/pushes.Seconds(), "no loop")
		return time.Since(began) > 3*pushes
	})
	require.Equal(t, versions, c.inForceByEnvoy(), "what was in force still is")
	require.Equal(t, len(held), alive(held))
	require.Equal(t, "a-api", c.from(WorkerA, 6443, Named(""), 0))
	require.Equal(t, "b-oauth", c.from(WorkerB, 443, Named(fqdn("oauth", "b")), 0))

	require.NoError(t, c.Manager.Kill())
	c.manager = good
	require.NoError(t, c.StartManager())
	c.settled("a manager without the fault is accepted, and the problem goes away")
	require.Equal(t, len(held), alive(held))
}
