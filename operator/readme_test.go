package operator_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// constants of conditions.go by the prefix of their Go names.
func constants(t *testing.T, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "api/v1alpha1/conditions.go", nil, 0)
	require.NoError(t, err)
	var out []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		out = append(out, value)
		return true
	})
	require.NotEmpty(t, out)
	return out
}

// behaviour H2: reasons are constants and documented; each has one row, which says what
// it means and what to do.
func TestEveryReasonIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, reasons, found := strings.Cut(string(text), "\n## Reasons\n")
	require.True(t, found)
	for _, reason := range constants(t, "Reason") {
		require.Equal(t, 1, strings.Count(reasons, "\n| `"+reason+"` |"), "rows of reason %s in README.md", reason)
		require.Regexp(t, "\n\\| `"+reason+"` \\|[^|\n]*[^|\\s][^|\n]*\\|[^|\n]*[^|\\s][^|\n]*\\|\n", reasons, "the row of reason %s in README.md", reason)
	}
	for _, condition := range constants(t, "Condition") {
		require.Contains(t, string(text), "`"+condition+"`", "condition %s in README.md", condition)
	}
}

// behaviour H2: every reason and condition is reached by a test that names it.
func TestEveryReasonIsTested(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	require.NoError(t, filepath.WalkDir("internal", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			var content []byte
			content, err = os.ReadFile(path)
			text.Write(content)
		}
		return err
	}))
	var missing []string
	for _, prefix := range []string{"Reason", "Condition"} {
		for _, name := range constants(t, prefix) {
			named := regexp.MustCompile(`\b` + prefix + name + `\b|"` + name + `"|[" ]` + name + `[" :]`)
			if !named.MatchString(text.String()) {
				missing = append(missing, prefix+name)
			}
		}
	}
	require.Empty(t, missing, "no test names them")
}
