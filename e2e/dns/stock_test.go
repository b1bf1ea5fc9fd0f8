package dns

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// A stock CoreDNS takes the plugin by two lines of plugin.cfg, as the module's
// README tells. Its own list of plugins is cut to a few, so that the clouds' SDKs
// need not be compiled.
func TestStockCoreDNSByPluginCfg(t *testing.T) {
	r := idle(t)
	require.NoError(t, r.Snapshot())
	source := filepath.Join(t.TempDir(), "coredns")
	command := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = source
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath -buildvcs=false -mod=mod", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v: %s", name, args, out)
		return strings.TrimSpace(string(out))
	}
	find := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/coredns/coredns")
	find.Dir, find.Env = filepath.Join(r.root, "corednsplugin"), append(os.Environ(), "GOWORK=off")
	dir, err := find.Output()
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(source, os.DirFS(strings.TrimSpace(string(dir)))))
	command("chmod", "-R", "u+w", source)

	readme, err := os.ReadFile(filepath.Join(r.root, "corednsplugin", "README.md"))
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "oooi") && strings.Contains(line, ":github.com/") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	require.Len(t, lines, 2)
	plugins := append([]string{"bind:bind"}, lines...)
	plugins = append(plugins, "prometheus:metrics", "errors:errors", "cache:cache", "forward:forward", "whoami:whoami")
	require.NoError(t, os.WriteFile(filepath.Join(source, "plugin.cfg"), []byte(strings.Join(plugins, "\n")+"\n"), 0o600))
	const module = "github.com/densityops/oooi/corednsplugin"
	command("go", "mod", "edit", "-require", module+"@v0.0.0", "-replace", module+"="+filepath.Join(r.root, "corednsplugin"))
	command("go", "run", "directives_generate.go")
	binary := filepath.Join(r.Dir, "stock")
	command("go", "build", "-o", binary, ".")

	conf := filepath.Join(r.Dir, "Corefile")
	require.NoError(t, os.WriteFile(conf, []byte(". {\n bind "+ServerIP+" "+PodIP+"\n oooi {\n  snapshot "+r.SnapshotFile()+
		"\n  fallthrough\n }\n errors\n cache 30\n forward . "+UpstreamIP+"\n}\n"), 0o600))
	p, err := r.Server.Start(lab.Spec{Args: []string{binary, "-conf", conf}})
	require.NoError(t, err)
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the stock CoreDNS", func(ctx context.Context) error {
		if err := p.Running(); err != nil {
			return err
		}
		got, err := r.Dig(ctx, r.VM, "@"+ServerIP, api)
		if err == nil && got != "NOERROR 192.0.2.4" {
			err = errors.New(got)
		}
		return err
	}))
	got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, "example.org")
	require.NoError(t, err)
	require.Equal(t, "NOERROR 198.51.100.9", got)
	got, err = r.Dig(t.Context(), r.VM, "@"+ServerIP, "CH", "TXT", "version.bind")
	require.NoError(t, err)
	require.Equal(t, "REFUSED", got, "forward lets other classes through, the plugin does not")
}
