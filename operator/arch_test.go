package operator_test

import (
	"go/ast"
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

// file is one Go file of the module.
type file struct {
	path, dir string
	test      bool
	imports   []string
	lines     int
	functions map[string]int
}

func files(t *testing.T) []file {
	t.Helper()
	var out []file
	set := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		parsed, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		f := file{
			path: path, dir: filepath.Dir(path), test: strings.HasSuffix(path, "_test.go"),
			lines: set.File(parsed.Pos()).LineCount(), functions: map[string]int{},
		}
		for _, i := range parsed.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, name)
		}
		if !ast.IsGenerated(parsed) {
			for _, d := range parsed.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					f.functions[fn.Name.Name] = set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1
				}
			}
			out = append(out, f)
			return nil
		}
		f.lines = 0
		out = append(out, f)
		return nil
	}))
	require.NotEmpty(t, out)
	return out
}

func within(name, prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }

// R1: what crosses a module's border is a file, never a Go import.
func TestNoSiblingIsImported(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		for _, name := range f.imports {
			for _, sibling := range []string{"dhcpd", "corednsplugin", "xds-manager"} {
				require.False(t, within(name, "github.com/densityops/oooi/"+sibling), "%s imports %s", f.path, name)
			}
		}
	}
}

// R7: pure packages take no context, clock, socket, file, client or logger.
func TestPurePackagesArePure(t *testing.T) {
	t.Parallel()
	pure := []string{"internal/plan", "internal/render", "internal/outcome", "internal/facts", "internal/images", "internal/apps"}
	forbidden := []string{
		"context", "os", "log", "net/http", "k8s.io/client-go", "sigs.k8s.io/controller-runtime/pkg/client", "google.golang.org/grpc",
		"github.com/go-logr/logr",
	}
	seen := map[string]bool{}
	for _, f := range files(t) {
		if f.test || !slices.Contains(pure, f.dir) {
			continue
		}
		seen[f.dir] = true
		for _, name := range f.imports {
			for _, bad := range forbidden {
				require.False(t, within(name, bad), "%s imports %s", f.path, name)
			}
		}
	}
	require.Len(t, seen, len(pure), "a pure package has moved")
}

// R7: only the hub, and what writes its files, know the contract's messages.
func TestOnlyTheHubKnowsTheContract(t *testing.T) {
	t.Parallel()
	const contract = "github.com/densityops/oooi/operator/api/agent/v1"
	know := []string{"internal/agent", "internal/offline", "internal/controller/workload", "internal/app"}
	for _, f := range files(t) {
		// The stand-ins for agents speak it too.
		if !f.test && slices.Contains(f.imports, contract) && !within(f.dir, "internal/testenv") {
			require.Contains(t, know, f.dir, "%s knows the contract", f.path)
		}
	}
}

// R8: the API's types import little, so that others can import them. core/v1 is
// what a pod's placement and resources are made of.
func TestAPITypesImportLittle(t *testing.T) {
	t.Parallel()
	allowed := []string{"k8s.io/apimachinery", "k8s.io/api/core/v1", "github.com/densityops/oooi/operator/api/v1alpha1"}
	for _, f := range files(t) {
		if f.test || f.dir != "api/v1alpha1" {
			continue
		}
		for _, name := range f.imports {
			standard := !strings.Contains(strings.Split(name, "/")[0], ".")
			require.True(t, standard || slices.ContainsFunc(allowed, func(a string) bool { return within(name, a) }), "%s imports %s", f.path, name)
		}
	}
}

// The direction of imports: the planner knows nothing of who uses it.
func TestDirectionOfImports(t *testing.T) {
	t.Parallel()
	const module = "github.com/densityops/oooi/operator/"
	may := map[string][]string{
		"internal/plan":    {"api/v1alpha1"},
		"internal/images":  {},
		"internal/render":  {"api/v1alpha1", "internal/plan", "internal/images"},
		"internal/facts":   {"api/v1alpha1", "internal/plan", "internal/render"},
		"internal/offline": {"api/v1alpha1", "api/agent/v1", "internal/agent", "internal/facts", "internal/plan", "internal/render", "internal/schema"},
		"internal/schema":  {},
		"internal/golden":  {},
	}
	for _, f := range files(t) {
		allowed, ruled := may[f.dir]
		if f.test || !ruled {
			continue
		}
		for _, name := range f.imports {
			if own, found := strings.CutPrefix(name, module); found {
				require.Contains(t, allowed, own, "%s imports %s", f.path, name)
			}
		}
	}
}

// R6: no file over 500 lines, no function over 60 but the wiring; test tables may
// be longer.
func TestFilesAndFunctionsAreShort(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		require.LessOrEqual(t, f.lines, 500, "%s is too long", f.path)
		for name, lines := range f.functions {
			if !f.test && f.dir != "internal/app" {
				require.LessOrEqual(t, lines, 60, "%s: %s is too long", f.path, name)
			}
		}
	}
}

// R6: no package that says nothing.
func TestPackagesAreNamedForWhatTheyDo(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		require.NotContains(t, []string{"util", "utils", "common", "helper", "helpers", "types", "base", "manager"}, filepath.Base(f.dir), f.path)
	}
}
