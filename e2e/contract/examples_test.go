package contract_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestEveryExampleIsAccepted sends the objects of the samples, of the demo and of
// every document to a real API server, strictly (behaviours A1, A2, A3, A5). What
// people copy must work.
func TestEveryExampleIsAccepted(t *testing.T) {
	c := newCluster(t)
	for source, documents := range examples(t) {
		for _, object := range documents {
			var meta struct {
				APIVersion, Kind string
				Metadata         struct{ Name, Namespace string }
			}
			require.NoError(t, yaml.Unmarshal([]byte(object), &meta), source)
			if !strings.HasPrefix(meta.APIVersion, "hostedcluster.densityops.com/") || meta.Metadata.Name == "" {
				continue
			}
			t.Run(filepath.Base(source)+"/"+meta.Kind+"/"+meta.Metadata.Name, func(t *testing.T) {
				if meta.Metadata.Namespace != "" {
					c.must(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+meta.Metadata.Namespace+`"}}`,
						"apply", "--server-side", "-f", "-")
				}
				c.must(t, object, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
			})
		}
	}
}

var fence = regexp.MustCompile("(?s)```ya?ml\n(.*?)\n```")

// examples are YAML documents by the file that shows them.
func examples(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, dir := range []string{root(t, "manifests", "samples"), root(t, "e2e", "demo")} {
		for _, path := range find(t, dir, func(path string) bool { return filepath.Ext(path) == ".yaml" }) {
			out[path] = strings.Split(read(t, path), "\n---\n")
		}
	}
	for _, path := range find(t, root(t), isDocument) {
		for _, block := range fence.FindAllStringSubmatch(read(t, path), -1) {
			out[path] = append(out[path], strings.Split(block[1], "\n---\n")...)
		}
	}
	require.NotEmpty(t, out[root(t, "README.md")])
	return out
}

func isDocument(path string) bool {
	return filepath.Ext(path) == ".md" && !strings.Contains(path, "/bin/") && !strings.Contains(path, "/.git/")
}
