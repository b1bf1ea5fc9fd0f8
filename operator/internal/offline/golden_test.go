package offline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/densityops/oooi/operator/internal/golden"
	"github.com/densityops/oooi/operator/internal/images"
	"github.com/densityops/oooi/operator/internal/offline"
	"github.com/densityops/oooi/operator/internal/render"
)

// now is when every golden plan is made.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// golden cases: an in.yaml may name options of the operator in its first line,
// "# options: openshift scc=minimal fence=off workloads"; workloads puts the
// rendered workloads under test too.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, dir := range golden.Cases(t, "testdata") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(dir, "in.yaml"))
			require.NoError(t, err)
			first, _, _ := strings.Cut(string(text), "\n")
			words, found := strings.CutPrefix(first, "# options:")
			if !found {
				words = ""
			}
			golden.Compare(t, dir, files(t, text, strings.Fields(words)))
		})
	}
}

func files(t *testing.T, text []byte, words []string) map[string][]byte {
	t.Helper()
	options, workloads := optionsOf(t, words)
	var o offline.Objects
	require.NoError(t, o.Read("in.yaml", text))
	r, err := offline.Render(&o, options)
	require.NoError(t, err)
	got := map[string][]byte{}
	put := func(name string, objects []render.Object, without string) {
		out, err := offline.YAML(objects, without)
		require.NoError(t, err)
		got[name] = out
	}
	put("want.children.yaml", r.Children, "status")
	put("want.status.yaml", r.Status, "spec")
	if workloads {
		put("want.workloads.yaml", legible(r.Workloads), "status")
	}
	for _, s := range r.Snapshots {
		pretty, err := s.Pretty()
		require.NoError(t, err)
		got["want.snapshot."+s.Child.Name+".json"] = pretty
	}
	got["want.problems.txt"] = []byte(strings.Join(append(r.Problems, ""), "\n"))
	return got
}

func optionsOf(t *testing.T, words []string) (offline.Options, bool) {
	t.Helper()
	o := offline.Options{Fence: offline.FenceAuto, Now: now}
	o.Render.Hub, o.Render.HubIP, o.Render.HubCA = "oooi-hub.oooi-system.svc:8443", "172.30.20.3", []byte("the CA\n")
	o.Render.SCC, o.Render.Images = render.SCCReference, images.For(func(string) (string, bool) { return "", false })
	workloads := false
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "openshift":
			o.Render.OpenShift = true
		case "scc":
			o.Render.SCC = render.SCC(value)
		case "fence":
			o.Fence = offline.Fence(value)
		case "workloads":
			workloads = true
		default:
			require.Fail(t, "unknown option", w)
		}
	}
	return o, workloads
}

// legible replaces what gzip made: its bytes are the compiler's business.
func legible(objects []render.Object) []render.Object {
	for _, o := range objects {
		if c, ok := o.(*corev1.ConfigMap); ok {
			c.BinaryData = map[string][]byte{"snapshot.json.gz": []byte("gzip")}
		}
	}
	return objects
}
