package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files")

// behaviour H4: the operator keeps a copy of this file and decodes it strictly.
func TestTheStanzaHasExactlyOurFields(t *testing.T) {
	a := Agent{
		ObservedVersion: "sha256:aa", ObservedGeneration: 3, ModuleVersion: "v0.1.0", Contract: "agent.v1",
		AcceptedVersion: "sha256:aa", Backends: 15,
		Problems: []Problem{{Reason: "ConfigRejected", Message: "envoy rejected \"vlan-192.0.2.4-443\": duplicate matcher"}},
	}
	b, err := json.MarshalIndent(wire("vlan100", "vlan100-proxy", a), "", "  ")
	require.NoError(t, err)
	const golden = "testdata/status.golden.json"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, append(b, '\n'), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(b)+"\n")
}

// recorder is an API server that fails as often as it is told to.
type recorder struct {
	mu       sync.Mutex // guards what follows while it runs
	failures int
	tries    int
	bodies   [][]byte
}

func (r *recorder) Apply(_ context.Context, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	if r.failures > 0 {
		r.failures--
		return errors.New("connection refused")
	}
	r.bodies = append(r.bodies, bytes.Clone(body))
	return nil
}

// heals ends the failures and says how often it was asked until then.
func (r *recorder) heals() (tries int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = 0
	return r.tries
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// run lets f act on a running reporter inside a bubble of fake time.
func run(t *testing.T, applier *recorder, f func(*Reporter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := New(applier, "ns", "p", quiet())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		f(r)
		cancel()
		require.NoError(t, <-done)
	})
}

func settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// behaviour B8: an unchanged world writes nothing.
func TestAnUnchangedStanzaIsWrittenOnce(t *testing.T) {
	api := &recorder{}
	run(t, api, func(r *Reporter) {
		for range 10 {
			r.Set(Agent{Backends: 2})
			settle(time.Second)
		}
	})
	require.Len(t, api.bodies, 1)
}

func TestWhatHappensTogetherIsWrittenTogether(t *testing.T) {
	api := &recorder{}
	run(t, api, func(r *Reporter) {
		for i := range 50 {
			r.Set(Agent{Backends: int32(i)})
		}
		settle(time.Second)
	})
	require.Len(t, api.bodies, 1)
	require.Contains(t, string(api.bodies[0]), `"backends":49`)
}

func TestAFailedWriteIsTriedAgainAndTheNewestWins(t *testing.T) {
	api := &recorder{failures: 2}
	run(t, api, func(r *Reporter) {
		r.Set(Agent{Backends: 1})
		settle(500 * time.Millisecond)
		r.Set(Agent{Backends: 2})
		settle(10 * time.Second)
	})
	require.Len(t, api.bodies, 1)
	require.Contains(t, string(api.bodies[0]), `"backends":2`)
}

// The engine sets what it has each second, changed or not: an API server that
// refuses is asked less and less often all the same.
func TestAWriterThatIsRefusedAsksSeldom(t *testing.T) {
	api := &recorder{failures: 1000}
	run(t, api, func(r *Reporter) {
		for i := range 600 {
			r.Set(Agent{Backends: int32(i % 2)})
			settle(time.Second)
		}
		tries := api.heals()
		require.LessOrEqual(t, tries, 20)
		require.Greater(t, tries, 10)
		settle(lastPause + time.Second)
		require.Len(t, api.bodies, 1, "what was set last arrives")
		require.Contains(t, string(api.bodies[0]), `"backends":1`)
	})
}

// hazard 190: a rejection is in status within one second.
func TestAChangeIsWrittenWithinOneSecond(t *testing.T) {
	api := &recorder{}
	run(t, api, func(r *Reporter) {
		r.Set(Agent{Problems: []Problem{{Reason: "ConfigRejected", Message: "x"}}})
		settle(900 * time.Millisecond)
		require.Len(t, api.bodies, 1)
	})
}

func TestProblemsAreSortedUniqueAndBounded(t *testing.T) {
	in := []Problem{{"B", "2"}, {"A", "1"}, {"B", "1"}, {"A", "1"}}
	require.Equal(t, []Problem{{"A", "1"}, {"B", "1"}, {"B", "2"}}, tidy(in))
	many := make([]Problem, 0, 300)
	for i := range 300 {
		many = append(many, Problem{"A", fmt.Sprintf("%03d%s", i, strings.Repeat("é", 2000))})
	}
	out := tidy(many)
	require.Len(t, out, maxProblems)
	require.LessOrEqual(t, len(out[0].Message), maxMessage)
	require.True(t, json.Valid([]byte(fmt.Sprintf("%q", out[0].Message))))
}
