package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/demo/check"
	"github.com/densityops/oooi/e2e/demo/world"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == actor.Name {
		os.Exit(actor.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestThreeHostedClustersOnOneVLAN is the demo with one cluster more, which is
// one more file: behaviours B5, C1, C2, C3, C8, D1, D2, D3, D5, D6, D8, E1, E2,
// E3, E4, E5, F1 with packets of real clients.
func TestThreeHostedClustersOnOneVLAN(t *testing.T) {
	self, err := actor.Self()
	require.NoError(t, err)
	bin, err := filepath.Abs("../../bin")
	require.NoError(t, err)
	envoy := os.Getenv("ENVOY")
	if envoy == "" {
		envoy = filepath.Join(bin, "tools", "envoy")
	}
	w, err := world.Build(t.Context(), world.Options{
		Bin: bin, Envoy: envoy, Objects: []string{"objects", "testdata"}, Dir: t.TempDir(), Self: self,
		Step: func(words string) func(error) {
			return func(err error) { t.Logf("%s: %v", words, err) }
		},
	})
	if w != nil {
		t.Cleanup(w.Lab.Close)
	}
	require.NoError(t, err)
	require.Len(t, w.Clusters, 3)
	require.Len(t, w.VMs, 6)
	for _, r := range check.All(t.Context(), w, func(string) func(error) { return func(error) {} }) {
		t.Run(r.Check+"/"+r.Subject, func(t *testing.T) { require.NoError(t, r.Err) })
	}
	require.NoError(t, w.Ended(), "no program has ended")
}
