package dhcpd

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/densityops/oooi/"

// pure packages take no context, clock, socket, file, client or logger.
var pure = []string{"internal/config", "internal/lease", "internal/dhcp"}

// impure is what they may not import.
var impure = []string{"context", "os", "net", "net/http", "log", "log/slog", "syscall", "k8s.io/client-go", "google.golang.org/grpc", "golang.org/x/sys"}

// may is who may import what of this module. Packages that are not named may
// import nothing of it.
var may = map[string][]string{
	"cmd/dhcpd":        {"internal/app", "internal/version"},
	"cmd/fence":        {"internal/version"},
	"internal/app":     {"internal/agent", "internal/agentpb", "internal/config", "internal/holder", "internal/journal", "internal/lease", "internal/metrics", "internal/report", "internal/server", "internal/version", "internal/vmi"},
	"internal/agent":   {"internal/agentpb", "internal/config", "internal/regular", "internal/version"},
	"internal/config":  {"internal/agentpb", "internal/lease"},
	"internal/dhcp":    {"internal/config", "internal/lease"},
	"internal/journal": {"internal/lease"},
	"internal/metrics": {"internal/config", "internal/lease"},
	"internal/server":  {"internal/config", "internal/dhcp", "internal/journal", "internal/lease"},
	"internal/vmi":     {"internal/config", "internal/lease", "internal/regular"},
}

// imports calls f for each import of each file that is not a test.
func imports(t *testing.T, f func(pkg, file, path string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			f(filepath.ToSlash(filepath.Dir(name)), name, strings.Trim(i.Path.Value, `"`))
		}
		return nil
	}))
}

func TestPurePackagesArePure(t *testing.T) {
	imports(t, func(pkg, file, path string) {
		if !slices.Contains(pure, pkg) {
			return
		}
		for _, bad := range impure {
			require.False(t, path == bad || strings.HasPrefix(path, bad+"/") && bad != "net", "%s imports %s", file, path)
		}
	})
}

func TestImportsGoOneWay(t *testing.T) {
	imports(t, func(pkg, file, path string) {
		rest, ours := strings.CutPrefix(path, module)
		if !ours {
			return
		}
		rest, own := strings.CutPrefix(rest, "dhcpd/")
		require.True(t, own, "%s imports a sibling module: %s", file, path)
		if pkg != "internal/netns" {
			require.Contains(t, may[pkg], rest, "%s imports %s", file, path)
		}
	})
}
