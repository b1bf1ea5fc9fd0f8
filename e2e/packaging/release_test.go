package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository is a small one of the form of this one, with what a release needs.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile(filepath.Join(root, "e2e/tools/scripts/release"))
	require.NoError(t, err)
	for path, content := range map[string]string{
		"release":                string(script),
		"dhcpd/go.mod":           "module github.com/densityops/oooi/dhcpd\n\ngo 1.26.0\n",
		"dhcpd/CHANGELOG.md":     "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-30\n\n- Serves leases.\n\n## [0.1.0]\n",
		"dhcpd/dhcpd.go":         "package dhcpd\n\nconst Version = \"v0.2.0\"\n",
		"dhcpd/dhcpd_test.go":    "package dhcpd\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) {\n\tif Version == \"\" {\n\t\tt.Fatal()\n\t}\n}\n",
		"dhcpd/cmd/d/main.go":    "package main\n\nimport (\n\t\"fmt\"\n\n\t\"github.com/densityops/oooi/dhcpd\"\n)\n\nfunc main() { fmt.Println(\"d\", dhcpd.Version, \"contract agent.v1\") }\n",
		"e2e/go.mod":             "module github.com/densityops/oooi/e2e\n\ngo 1.26.0\n",
		"e2e/contract/c.go":      "package contract\n",
		"e2e/contract/c_test.go": "package contract\n\nimport \"testing\"\n\nfunc TestContract(t *testing.T) {}\n",
	} {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o700))
	}
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	commit(t, dir)
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--allow-empty", "--message", "all")
}

func edit(t *testing.T, old, new string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(raw), old)
	require.NoError(t, os.WriteFile(name, []byte(strings.Replace(string(raw), old, new, 1)), 0o600))
}

func release(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./release", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestAReleaseIsAnAnnotatedTag(t *testing.T) {
	dir := repository(t)
	out, err := release(t, dir, "dhcpd", "v0.2.0")
	require.NoError(t, err, out)
	require.Equal(t, "tag\n", git(t, dir, "cat-file", "-t", "dhcpd/v0.2.0"))
	out, err = release(t, dir, "dhcpd", "v0.2.0")
	require.Error(t, err)
	require.Contains(t, out, "a tag is never moved")
}

func TestAReleaseIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(t *testing.T, dir string)
		dirty   bool
		module  string
		version string
		want    string
	}{
		"for a module that is not there": {module: "e2e", want: "MODULE is one of"},
		"for a version that is none":     {version: "0.2", want: "VERSION is a version"},
		"on another branch": {
			change: func(t *testing.T, dir string) { t.Helper(); git(t, dir, "checkout", "--quiet", "-b", "topic") },
			want:   "not the branch main",
		},
		"with changes that are not committed": {
			change: func(t *testing.T, dir string) { t.Helper(); edit(t, "Serves", "serves", dir, "dhcpd/CHANGELOG.md") },
			dirty:  true, want: "not clean",
		},
		"without words in the changelog": {version: "v0.1.0", want: `says nothing under "## [0.1.0]"`},
		"with a replace": {
			change: func(t *testing.T, dir string) {
				t.Helper()
				edit(t, "go 1.26.0", "go 1.26.0\n\nreplace example.com/a => ../a", dir, "dhcpd/go.mod")
			},
			want: "go.mod has a replace",
		},
		"with a sibling": {
			change: func(t *testing.T, dir string) {
				t.Helper()
				edit(t, "go 1.26.0", "go 1.26.0\n\nrequire github.com/densityops/oooi/operator v0.1.0", dir, "dhcpd/go.mod")
			},
			want: "requires a sibling",
		},
		"with a test that fails": {
			change: func(t *testing.T, dir string) { t.Helper(); edit(t, `== ""`, `!= ""`, dir, "dhcpd/dhcpd_test.go") },
			want:   "testing dhcpd alone failed",
		},
		"with a program that says another version": {
			change: func(t *testing.T, dir string) { t.Helper(); edit(t, "v0.2.0", "v0.2.0-dev", dir, "dhcpd/dhcpd.go") },
			want:   "--version does not say v0.2.0",
		},
		"with a broken contract": {
			change: func(t *testing.T, dir string) {
				t.Helper()
				edit(t, "func TestContract(t *testing.T) {}", "func TestContract(t *testing.T) { t.Fatal() }", dir, "e2e/contract/c_test.go")
			},
			want: "testing the contract failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repository(t)
			if tt.change != nil {
				tt.change(t, dir)
			}
			if !tt.dirty {
				commit(t, dir)
			}
			module, version := "dhcpd", "v0.2.0"
			if tt.module != "" {
				module = tt.module
			}
			if tt.version != "" {
				version = tt.version
			}
			out, err := release(t, dir, module, version)
			require.Error(t, err)
			require.Contains(t, out, tt.want)
			require.Empty(t, git(t, dir, "tag"))
		})
	}
}
