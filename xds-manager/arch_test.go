package xdsmanager

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/densityops/oooi/xds-manager"

// imports are the imports of the module's code by package directory, tests
// left out.
func imports(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if out[dir] == nil {
			out[dir] = map[string]bool{}
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			out[dir][name] = true
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, out)
	return out
}

// R7: a pure package takes no context, clock, socket, file, client or logger.
func TestPurePackagesStayPure(t *testing.T) {
	denied := []string{"context", "os", "net", "net/http", "log", "log/slog", "k8s.io/client-go", "google.golang.org/grpc", "sigs.k8s.io/controller-runtime"}
	all := imports(t)
	for _, pure := range []string{"internal/routes", "internal/envoy", "internal/translate"} {
		require.NotEmpty(t, all[pure], pure)
		for name := range all[pure] {
			for _, d := range denied {
				require.False(t, name == d || (strings.HasPrefix(name, d+"/") && d != "net" && d != "os"), "%s imports %s", pure, name)
			}
		}
	}
}

// R7: the contract is known in one place.
func TestOnlyTheAgentKnowsTheContract(t *testing.T) {
	for dir, names := range imports(t) {
		if names[module+"/internal/agentpb"] {
			require.Contains(t, []string{"internal/agent", "internal/agent/agenttest"}, dir)
		}
	}
}

// R1: modules meet in files, never in imports.
func TestNoSiblingIsImported(t *testing.T) {
	for dir, names := range imports(t) {
		for name := range names {
			require.False(t, strings.HasPrefix(name, "github.com/densityops/oooi/") && !strings.HasPrefix(name, module+"/"), "%s imports %s", dir, name)
		}
	}
}

// R9: who may import whom inside the module.
func TestImportsFollowTheLayers(t *testing.T) {
	allowed := map[string][]string{
		"cmd/xds-manager":    {"internal/app", "internal/agent"},
		"internal/routes":    {},
		"internal/envoy":     {},
		"internal/translate": {"internal/envoy", "internal/routes"},
		"internal/xds":       {"internal/translate"},
		"internal/bootstrap": {"internal/envoy"},
		"internal/agent":     {"internal/agentpb", "internal/routes"},
		// A hub for tests; no program imports it.
		"internal/agent/agenttest": {"internal/agentpb"},
		"internal/agentpb":         {},
		"internal/report":          {},
		"internal/resolve":         {},
		"internal/metrics":         {},
		"internal/app": {
			"internal/agent", "internal/bootstrap", "internal/envoy", "internal/metrics", "internal/report", "internal/resolve",
			"internal/routes", "internal/translate", "internal/xds",
		},
	}
	for dir, names := range imports(t) {
		if dir == "." {
			continue
		}
		may, ok := allowed[dir]
		require.True(t, ok, "%s has no place in the layers", dir)
		for name := range names {
			own, inside := strings.CutPrefix(name, module+"/")
			require.True(t, !inside || slices.Contains(may, own), "%s imports %s", dir, own)
		}
	}
}

// R6: no package is named after nothing, and no file is too long to read.
func TestNoPackageIsNamedAfterNothing(t *testing.T) {
	for dir := range imports(t) {
		for _, bad := range []string{"util", "common", "helper", "types", "base", "manager"} {
			require.NotEqual(t, bad, filepath.Base(dir))
		}
	}
}
