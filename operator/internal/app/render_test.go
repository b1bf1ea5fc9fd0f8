package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/app"
)

const oneInfra = `apiVersion: hostedcluster.densityops.com/v1alpha1
kind: Infra
metadata: {name: vlan, namespace: clusters}
spec:
  networkConfig: {cidr: 192.0.2.0/24, gateway: 192.0.2.1, networkAttachmentDefinition: vlan}
  infraComponents:
    dhcp: {serverIP: 192.0.2.2, rangeStart: 192.0.2.100, rangeEnd: 192.0.2.199}
    dns: {serverIP: 192.0.2.3}
    proxy: {}
---
apiVersion: v1
kind: Secret
metadata: {name: x}
`

func none(string) (string, bool) { return "", false }

// renderTo runs the command into a directory.
func renderTo(t *testing.T, args ...string) (files map[string]string, stderr string, err error) {
	t.Helper()
	out := t.TempDir()
	var stdout, words bytes.Buffer
	require.NoError(t, os.MkdirAll(filepath.Join(out, "snapshots"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(out, "snapshots", "gone.json"), []byte("{}"), 0o644))
	err = app.Render(append(args, "-o", out), none, &stdout, &words)
	require.Empty(t, stdout.String())
	files = map[string]string{}
	require.NoError(t, filepath.WalkDir(out, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(out, path)
		files[name] = string(text)
		return err
	}))
	return files, words.String(), err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// `operator render`: objects in; children, workloads, snapshots and conditions
// out; what is wrong goes to stderr in words and is no failure.
func TestRenderWritesEverything(t *testing.T) {
	t.Parallel()
	files, stderr, err := renderTo(t, "-f", write(t, "in.yaml", oneInfra))
	require.NoError(t, err)
	require.Contains(t, files["children.yaml"], "kind: DHCPServer")
	require.NotContains(t, files["children.yaml"], "kind: ProxyServer")
	require.Contains(t, files["workloads.yaml"], "kind: Deployment")
	require.Contains(t, files["status.yaml"], "reason: InvalidConfiguration")
	require.Contains(t, files["snapshots/vlan-dhcp.json"], `"leaseSeconds": 3600`)
	require.NotContains(t, files, "snapshots/gone.json", "a child that is no more leaves no snapshot")
	require.Contains(t, stderr, "Infra clusters/vlan: InvalidConfiguration: infraComponents.proxy.serverIP must be set")
	require.Contains(t, stderr, "ignored: v1 Secret")
}

// Equal files give equal bytes, wherever and in whichever order they lie.
func TestRenderReadsDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parts := strings.SplitN(oneInfra, "---\n", 2)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "below"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "below", "z.yml"), []byte(parts[0]), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("{{ no YAML"), 0o644))
	one, _, err := renderTo(t, "-f", dir)
	require.NoError(t, err)
	two, _, err := renderTo(t, "-f", write(t, "in.yaml", oneInfra))
	require.NoError(t, err)
	require.Equal(t, two, one)
}

func TestRenderToStandardOutput(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.NoError(t, app.Render([]string{"-f", write(t, "in.yaml", oneInfra), "-enable-openshift", "-scc", "minimal", "-fence", "off"}, none, &stdout, &stderr))
	require.Contains(t, stdout.String(), "name: oooi-dhcpd")
	require.NotContains(t, stdout.String(), "name: fence")
	require.Contains(t, stdout.String(), "---\n")
}

// What the plan refuses fails a strict rendering, and is written all the same.
func TestAStrictRenderingFailsOnProblems(t *testing.T) {
	t.Parallel()
	files, stderr, err := renderTo(t, "-f", write(t, "in.yaml", oneInfra), "--strict")
	require.ErrorIs(t, err, app.ErrProblems)
	require.ErrorContains(t, err, ": 1")
	require.Contains(t, stderr, "infraComponents.proxy.serverIP must be set")
	require.Contains(t, files["children.yaml"], "kind: DHCPServer")
	_, _, err = renderTo(t, "-f", write(t, "in.yaml", strings.Replace(oneInfra, "proxy: {}", "proxy: {serverIP: 192.0.2.4}", 1)), "--strict")
	require.NoError(t, err)
}

// The usage is asked for or an error is one line: never both.
func TestRenderHelp(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.ErrorIs(t, app.Render([]string{"--help"}, none, &stdout, &stderr), app.ErrHelp)
	require.Contains(t, stdout.String(), "-strict")
	require.Empty(t, stderr.String())
}

// An object that is there twice, a field or a version that nobody serves: named,
// with the value and the place.
func TestRenderRefusesWhatTheAPIServerWould(t *testing.T) {
	t.Parallel()
	infra := "apiVersion: hostedcluster.densityops.com/v1alpha1\nkind: Infra\nmetadata: {name: x, namespace: vlans}\n"
	for _, c := range []struct{ name, text, want string }{
		{"an unknown field", infra + "spec: {netWorkConfig: {}}\n", `document 1: Infra vlans/x: decoding: strict decoding error: unknown field "spec.netWorkConfig"`},
		{"an unknown version", strings.Replace(infra, "v1alpha1", "v1beta7", 1), `apiVersion "hostedcluster.densityops.com/v1beta7" must be hostedcluster.densityops.com/v1alpha1`},
		{"an object twice", infra + "---\n" + infra, "document 2: Infra vlans/x was read before, from "},
		{"a namespace that YAML takes for true", strings.Replace(infra, "vlans", "y", 1), "metadata.namespace must be a string"},
		{"a key twice", infra + "spec: {}\nspec: {}\n", `key "spec" already set`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.ErrorContains(t, app.Render([]string{"-f", write(t, "in.yaml", c.text)}, none, &stdout, &stderr), c.want)
			require.Empty(t, stdout.String())
		})
	}
}

func TestRenderRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	in := write(t, "in.yaml", oneInfra)
	for name, args := range map[string][]string{
		"no file":               {},
		"a file that is gone":   {"-f", filepath.Join(t.TempDir(), "gone.yaml")},
		"what is no YAML":       {"-f", write(t, "x.yaml", "a: [")},
		"a field of wrong type": {"-f", write(t, "x.yaml", "apiVersion: hostedcluster.densityops.com/v1alpha1\nkind: Infra\nmetadata: {name: x}\nspec: {networkConfig: 7}\n")},
		"an unknown SCC":        {"-f", in, "-scc", "none"},
		"an unknown fence":      {"-f", in, "-fence", "maybe"},
		"an unknown flag":       {"-f", in, "-x"},
		"a time that is none":   {"-f", in, "-now", "noon"},
		"a CA that is gone":     {"-f", in, "-hub-ca", filepath.Join(t.TempDir(), "ca.crt")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Error(t, app.Render(args, none, &stdout, &stderr))
			require.Empty(t, stdout.String())
		})
	}
}
