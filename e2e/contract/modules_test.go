package contract_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var modules = []string{"corednsplugin", "dhcpd", "operator", "xds-manager"}

const modulePath = "github.com/densityops/oooi/"

// TestNoModuleKnowsASibling is behaviour I1: what crosses a module's border is a
// file. A workspace compiles a sibling's import without a require, so the files
// themselves are read too.
func TestNoModuleKnowsASibling(t *testing.T) {
	for _, module := range modules {
		t.Run(module, func(t *testing.T) {
			gomod := read(t, root(t, module, "go.mod"))
			require.Equal(t, 1, strings.Count(gomod, modulePath), "only the module's own line")
			require.NotContains(t, gomod, "replace ", "a tagged module replaces nothing")
			for _, path := range find(t, root(t, module), func(path string) bool { return filepath.Ext(path) == ".go" }) {
				for _, other := range append([]string{"e2e"}, modules...) {
					if other != module {
						require.NotContains(t, read(t, path), `"`+modulePath+other, path)
					}
				}
			}
		})
	}
}

// TestE2EImportsNoModule keeps the tests honest: they know the product by its
// binaries and files alone.
func TestE2EImportsNoModule(t *testing.T) {
	for _, path := range find(t, root(t, "e2e"), func(path string) bool { return filepath.Ext(path) == ".go" }) {
		for _, module := range modules {
			require.NotContains(t, read(t, path), `"`+modulePath+module+`/`, path)
		}
	}
}

// TestEveryProgramSaysItsVersionAndContract holds for the three agents.
func TestEveryProgramSaysItsVersionAndContract(t *testing.T) {
	for _, name := range []string{"dhcpd", "coredns", "xds-manager"} {
		t.Run(name, func(t *testing.T) {
			said, err := exec.CommandContext(t.Context(), binary(t, name), "--version").CombinedOutput()
			require.NoError(t, err, string(said))
			require.Contains(t, string(said), "agent.v1")
			require.Regexp(t, `v\d+\.\d+\.\d+`, string(said))
		})
	}
}
