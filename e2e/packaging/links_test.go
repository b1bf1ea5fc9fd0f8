package packaging_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestEveryLinkLeadsSomewhere: behaviour I4. Links inside the repository name a
// file that is there and, behind #, one of its headings.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	for _, document := range documentsOfTheRepository(t) {
		for _, m := range markdownLink.FindAllStringSubmatch(read(t, document), -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			path := document
			if file != "" {
				path = filepath.Join(filepath.Dir(document), file)
			}
			_, err := os.Stat(filepath.Join(root, path))
			require.NoError(t, err, "%s links to %s", document, target)
			if anchor != "" {
				require.Contains(t, anchors(read(t, path)), anchor, "%s links to %s", document, target)
			}
		}
	}
}

// TestEveryGuideIsTestedAndFound: a guide that no test runs, or that the README
// does not name, is no guide.
func TestEveryGuideIsTestedAndFound(t *testing.T) {
	t.Parallel()
	var linked []string
	for _, m := range markdownLink.FindAllStringSubmatch(read(t, "README.md"), -1) {
		linked = append(linked, m[1])
	}
	files, err := filepath.Glob(filepath.Join(root, "operator/docs/*.md"))
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		require.Contains(t, linked, "operator/docs/"+name+".md", "README.md links to each guide")
		if name != "behaviours" {
			require.Contains(t, guides, name, "each guide is run")
		}
	}
}

func documentsOfTheRepository(t *testing.T) []string {
	t.Helper()
	var names []string
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && (entry.Name() == "bin" || strings.HasPrefix(entry.Name(), ".")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			names = append(names, path)
		}
		return nil
	}))
	require.Contains(t, names, "README.md")
	return names
}

// anchors are the headings as a browser of the repository names them.
func anchors(text string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		words := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(words, " ", "-"))
	}
	return out
}
