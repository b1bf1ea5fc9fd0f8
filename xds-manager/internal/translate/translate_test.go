package translate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/xds-manager/internal/agent"
	"github.com/densityops/oooi/xds-manager/internal/envoy"
	"github.com/densityops/oooi/xds-manager/internal/routes"
	"github.com/densityops/oooi/xds-manager/internal/translate"
)

var update = flag.Bool("update", false, "rewrite golden files")

// pod is the pod of every golden file.
var pod = translate.Env{
	PodIP: netip.MustParseAddr("10.128.0.4"), VLANDevice: envoy.Device{Name: "net1", Index: 3}, PodDevice: envoy.Device{Name: "eth0", Index: 2},
	Resolved: map[string][]netip.Addr{"lb.tenant.example.net": {netip.MustParseAddr("192.0.2.200")}},
}

func read(t *testing.T, dir string) (routes.Table, []routes.Problem) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "in.json"))
	require.NoError(t, err)
	s, err := agent.Decode(b)
	require.NoError(t, err)
	table, problems := s.Table.Validate()
	return table, slices.Concat(s.Problems, problems)
}

// text is the messages as YAML, the packed ones inside unpacked.
func text(t *testing.T, m translate.Messages, problems []routes.Problem) string {
	t.Helper()
	doc := map[string]any{}
	add := func(key string, msg proto.Message) {
		b, err := protojson.Marshal(msg)
		require.NoError(t, err)
		var v any
		require.NoError(t, json.Unmarshal(b, &v))
		list, _ := doc[key].([]any)
		doc[key] = append(list, v)
	}
	for _, c := range m.Clusters {
		add("clusters", c)
	}
	for _, l := range m.Listeners {
		add("listeners", l)
	}
	for _, r := range m.Routes {
		add("routes", r)
	}
	var words []any
	for _, p := range problems {
		words = append(words, p.Reason+": "+p.Message)
	}
	if words != nil {
		doc["problems"] = words
	}
	b, err := yaml.Marshal(doc)
	require.NoError(t, err)
	return string(b)
}

// behaviour E1 to E5, E7, E12, F3: the files are what Envoy gets, for people to read.
// Each of them is loaded by a real Envoy in e2e/proxy.
func TestGoldenFiles(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/in.json")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, in := range dirs {
		dir := filepath.Dir(in)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			table, problems := read(t, dir)
			_, more, err := translate.Snapshot(table, pod)
			require.NoError(t, err)
			got := text(t, translate.Build(table, pod), slices.Concat(problems, more))
			golden := filepath.Join(dir, "want.yaml")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(string(want), got))
		})
	}
}

func TestNoGoldenFileIsStale(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*")
	require.NoError(t, err)
	for _, f := range files {
		if name := filepath.Base(f); name != "in.json" && name != "want.yaml" {
			if *update {
				require.NoError(t, os.Remove(f))
				continue
			}
			require.Fail(t, "stale file", f)
		}
	}
}

func bodies(r translate.Resources) []byte {
	var out bytes.Buffer
	for _, list := range [][]translate.Resource{r.Clusters, r.Listeners, r.Routes} {
		for _, x := range list {
			fmt.Fprintf(&out, "%s %s %x\n", x.Name, x.Version, x.Body.Value)
		}
	}
	return out.Bytes()
}

// behaviour E8; hazard 159; case C37.
func TestAHundredBuildsOfShuffledInputHaveTheSameBytes(t *testing.T) {
	b, err := os.ReadFile("testdata/two-attachments/in.json")
	require.NoError(t, err)
	s, err := agent.Decode(b)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(5, 6))
	var want []byte
	for range 100 {
		r.Shuffle(len(s.Table.Backends), func(i, j int) {
			s.Table.Backends[i], s.Table.Backends[j] = s.Table.Backends[j], s.Table.Backends[i]
		})
		table, _ := s.Table.Validate()
		res, _, err := translate.Snapshot(table, pod)
		require.NoError(t, err)
		if want == nil {
			want = bodies(res)
		}
		require.Equal(t, want, bodies(res))
	}
}

// only returns the table with the backends that keep says.
func only(t routes.Table, keep func(routes.Backend) bool) routes.Table {
	t.Backends = slices.DeleteFunc(slices.Clone(t.Backends), func(b routes.Backend) bool { return !keep(b) })
	t.External = nil
	return t
}

// behaviour E8; hazard 158: a listener may differ in its chains and its matcher
// alone, and the chains that stay are the same bytes.
func TestAddingAnAttachmentChangesNothingOfAnother(t *testing.T) {
	full, _ := read(t, "testdata/two-attachments")
	alone := only(full, func(b routes.Backend) bool { return strings.HasPrefix(b.Name, "example-hcp-a/") })
	before, after := translate.Build(alone, pod), translate.Build(full, pod)
	for _, old := range before.Listeners {
		i := slices.IndexFunc(after.Listeners, func(l *listenerv3.Listener) bool { return l.Name == old.Name })
		require.GreaterOrEqual(t, i, 0, "%s stays", old.Name)
		now := after.Listeners[i]
		for _, chain := range old.FilterChains {
			require.True(t, slices.ContainsFunc(now.FilterChains, func(c *listenerv3.FilterChain) bool { return proto.Equal(c, chain) }),
				"chain %s is as it was", chain.Name)
		}
		a, b := proto.CloneOf(old), proto.CloneOf(now)
		a.FilterChains, b.FilterChains, a.FilterChainMatcher, b.FilterChainMatcher = nil, nil, nil, nil
		require.True(t, proto.Equal(a, b), "%s differs outside chains and matcher", old.Name)
	}
}

// behaviour E8: a worker that comes or goes changes the matcher alone.
func TestAWorkerThatComesChangesNoChain(t *testing.T) {
	full, _ := read(t, "testdata/two-attachments")
	more := full
	more.Backends = slices.Clone(full.Backends)
	for i, b := range more.Backends {
		if b.Scoped && strings.HasPrefix(b.Name, "example-hcp-a/") {
			more.Backends[i].Sources = append(slices.Clone(b.Sources), netip.MustParsePrefix("192.0.2.102/32"))
		}
	}
	before, after := translate.Build(full, pod), translate.Build(more, pod)
	changed := 0
	for i, old := range before.Listeners {
		now := after.Listeners[i]
		if !proto.Equal(old, now) {
			changed++
		}
		a, b := proto.CloneOf(old), proto.CloneOf(now)
		a.FilterChainMatcher, b.FilterChainMatcher = nil, nil
		require.True(t, proto.Equal(a, b), "%s differs outside its matcher", old.Name)
	}
	require.Equal(t, 2, changed, "443 and 6443 of the VLAN side know the worker")
}

// behaviour E9; hazard 192: what Envoy would accept in silence is found.
func TestBrokenReferencesAreFound(t *testing.T) {
	table, _ := read(t, "testdata/two-attachments")
	const victim = "example-hcp-a/oauth"
	cases := []struct {
		name  string
		spoil func(*translate.Messages)
		want  string
	}{
		{"nothing is wrong", func(*translate.Messages) {}, ""},
		{"a chain's cluster is missing", func(m *translate.Messages) {
			m.Clusters = slices.DeleteFunc(m.Clusters, func(c *clusterv3.Cluster) bool { return c.Name == victim })
		}, victim},
		{"a matcher's chain is missing", func(m *translate.Messages) {
			for _, l := range m.Listeners {
				l.FilterChains = slices.DeleteFunc(l.FilterChains, func(c *listenerv3.FilterChain) bool { return c.Name == victim })
			}
		}, victim},
		{"a chain is there twice", func(m *translate.Messages) {
			m.Listeners[2].FilterChains = append(m.Listeners[1].FilterChains, m.Listeners[1].FilterChains[0])
		}, "example-hcp-a/api"},
		{"a route configuration is missing", func(m *translate.Messages) { m.Routes = nil }, "pod-80"},
		{"a field breaks its rules", func(m *translate.Messages) { m.Clusters[0].ConnectTimeout = durationpb.New(-1) }, "example-hcp-a/alias-tls"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := translate.Build(table, pod)
			c.spoil(&m)
			faults := m.Check()
			if c.want == "" {
				require.Empty(t, faults)
			} else {
				require.Contains(t, faults, c.want)
			}
		})
	}
}

// behaviour E8: an alias that leads where its attachment's name leads uses that
// name's chain, and never another attachment's.
func TestAnAliasUsesTheChainOfItsOwnAttachment(t *testing.T) {
	full, _ := read(t, "testdata/two-attachments")
	chains := func(table routes.Table, listener string) []string {
		var out []string
		for _, l := range translate.Build(table, pod).Listeners {
			if l.Name == listener {
				for _, c := range l.FilterChains {
					out = append(out, c.Name)
				}
			}
		}
		return out
	}
	const api = "vlan-192.0.2.4-6443"
	require.Equal(t, []string{"example-hcp-a/api", "example-hcp-b/api"}, chains(full, api))
	moved := full
	moved.Backends = slices.Clone(full.Backends)
	for i, b := range moved.Backends {
		if b.Name == "example-hcp-b/alias-api" || b.Name == "example-hcp-b/api" {
			// Where A's names lead: another attachment's chain is no choice.
			moved.Backends[i].Endpoints = []routes.Endpoint{{Addr: netip.MustParseAddr("172.30.10.1"), Port: 6443}}
		}
	}
	require.Equal(t, []string{"example-hcp-a/api", "example-hcp-b/api"}, chains(moved, api))
	alone := only(moved, func(b routes.Backend) bool { return b.Name != "example-hcp-b/api" })
	require.Equal(t, []string{"example-hcp-a/api", "example-hcp-b/alias-api"}, chains(alone, api))
	apart := full
	apart.Backends = slices.Clone(full.Backends)
	for i, b := range apart.Backends {
		if b.Name == "example-hcp-b/alias-api" {
			apart.Backends[i].Endpoints = []routes.Endpoint{{Addr: netip.MustParseAddr("172.30.99.1"), Port: 6443}}
		}
	}
	require.Equal(t, []string{"example-hcp-a/api", "example-hcp-b/alias-api", "example-hcp-b/api"}, chains(apart, api))
}

// The memory of a translator is never seen in what it answers.
func TestATranslatorWithMemoryAnswersAsOneWithout(t *testing.T) {
	full, _ := read(t, "testdata/two-attachments")
	r := rand.New(rand.NewPCG(8, 9))
	var tr translate.Translator
	for range 200 {
		table := only(full, func(routes.Backend) bool { return r.IntN(4) > 0 })
		for i, b := range table.Backends {
			if r.IntN(3) == 0 {
				table.Backends[i].Endpoints = []routes.Endpoint{{Addr: b.Endpoints[0].Addr.Next(), Port: b.Endpoints[0].Port}}
			}
		}
		got, gotProblems, err := tr.Snapshot(table, pod)
		require.NoError(t, err)
		want, wantProblems, err := translate.Snapshot(table, pod)
		require.NoError(t, err)
		require.Equal(t, bodies(want), bodies(got))
		require.Equal(t, wantProblems, gotProblems)
	}
}

// FuzzSnapshot: whatever a snapshot holds, what comes out of it is complete and
// consistent, and no panic comes out of it.
func FuzzSnapshot(f *testing.F) {
	files, err := filepath.Glob("testdata/*/in.json")
	require.NoError(f, err)
	for _, in := range files {
		b, err := os.ReadFile(in)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := agent.Decode(b)
		if err != nil {
			return
		}
		table, _ := s.Table.Validate()
		_, problems, err := translate.Snapshot(table, pod)
		require.NoError(t, err, "a valid table is always served")
		require.Empty(t, problems, "and nothing of it is left out")
	})
}
