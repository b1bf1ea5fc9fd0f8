package oooi

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/densityops/oooi/corednsplugin"

// imports lists what each package of the module imports outside its tests.
func imports(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if out[pkg] == nil {
			out[pkg] = map[string]bool{}
		}
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			out[pkg][p] = true
		}
		return nil
	}))
	return out
}

// Architecture R1, R7 and R9: no sibling module, pure packages stay pure, only
// agent and snapshot know the contract's code, and imports point one way.
func TestImports(t *testing.T) {
	all := imports(t)
	for pkg, list := range all {
		for p := range list {
			if strings.HasPrefix(p, "github.com/densityops/oooi/") {
				require.True(t, p == module || strings.HasPrefix(p, module+"/"), "%s imports the sibling %s", pkg, p)
			}
			if p == module+"/internal/agentpb" {
				require.Contains(t, []string{"internal/agent", "internal/snapshot"}, pkg, "%s knows the contract's code", pkg)
			}
		}
	}
	for p := range all["internal/snapshot"] {
		for _, forbidden := range []string{"context", "os", "net/http", "k8s.io/", "google.golang.org/grpc", "log", "time", "github.com/coredns/"} {
			require.False(t, p == forbidden || strings.HasPrefix(p, strings.TrimSuffix(forbidden, "/")+"/"), "snapshot is pure and imports %s", p)
		}
		require.NotEqual(t, "net", p, "snapshot is pure")
	}
	allowed := map[string][]string{
		"cmd/coredns":       {module},
		".":                 {module + "/internal/snapshot", module + "/internal/agent", module + "/internal/report"},
		"internal/agent":    {module + "/internal/snapshot", module + "/internal/agentpb"},
		"internal/report":   {module + "/internal/snapshot"},
		"internal/snapshot": {module + "/internal/agentpb"},
		"internal/agentpb":  nil,
	}
	for pkg, list := range all {
		require.Contains(t, allowed, pkg, "a package that the architecture does not know")
		for p := range list {
			if strings.HasPrefix(p, module) {
				require.Contains(t, allowed[pkg], p, "%s may not import it", pkg)
			}
		}
	}
}
