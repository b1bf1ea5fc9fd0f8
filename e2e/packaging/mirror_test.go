package packaging_test

import (
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/packaging"
)

// prebuilt are the programs that "make build" and the tools' targets made, and
// this machine's own C library.
func prebuilt(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	envoy := os.Getenv("ENVOY")
	if envoy == "" {
		envoy = tool(t, "envoy")
	}
	for name, file := range map[string]string{
		"operator": "", "dhcpd": "", "fence": "", "coredns": "", "xds-manager": "",
		"opm": tool(t, "opm"), "grpc-health-probe": tool(t, "grpc-health-probe"), "envoy": envoy,
		"kubectl": tool(t, "kubectl"),
	} {
		if file == "" {
			file = filepath.Join(root, "bin", name)
		}
		path, err := filepath.Abs(file)
		require.NoError(t, err)
		require.FileExists(t, path, "make build")
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	busybox, err := exec.LookPath("busybox")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "busybox-static/bin"), 0o755))
	require.NoError(t, os.Symlink(busybox, filepath.Join(dir, "busybox-static/bin/busybox")))
	require.NoError(t, os.Symlink("/", filepath.Join(dir, "libc6")))
	return dir
}

// TestTheImagesStart unpacks each image and runs its program with nothing else
// around it.
func TestTheImagesStart(t *testing.T) {
	builder := packaging.Builder{Root: root, Out: t.TempDir(), Log: os.Stderr, Prebuilt: prebuilt(t)}
	archs := []string{"amd64"}
	for _, c := range table(t).Components {
		t.Run(c.Name, func(t *testing.T) {
			built, err := builder.Component(t.Context(), table(t), c.Name, archs)
			require.NoError(t, err)
			if c.Name == "must-gather" {
				starts(t, built.ByArch["amd64"], "/bin/bash", "-c", "oc version --client && tar -c -f - /must-gather | wc -c")
				return
			}
			starts(t, built.ByArch["amd64"], "", "--version")
		})
	}
	t.Run("catalog", func(t *testing.T) {
		built, err := builder.Catalog(t.Context(), table(t), filepath.Join(root, "catalog"), archs)
		require.NoError(t, err)
		starts(t, built.ByArch["amd64"], "", "validate", "/configs")
		starts(t, built.ByArch["amd64"], "/bin/grpc_health_probe", "-version")
	})
}

func starts(t *testing.T, image v1.Image, program string, args ...string) {
	t.Helper()
	jail := t.TempDir()
	content := mutate.Extract(image)
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", jail)
	unpack.Stdin = content
	out, err := unpack.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, content.Close())
	config, err := image.ConfigFile()
	require.NoError(t, err)
	if program == "" {
		program = config.Config.Entrypoint[0]
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = "/", config.Config.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: jail, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestOneRegistryIsEnough: behaviours A8 and I2. All images lie in one registry
// under their digests, and nothing that runs names another host.
func TestOneRegistryIsEnough(t *testing.T) {
	var mu sync.Mutex
	var requests []string
	registry, err := packaging.StartRegistry(t.Context(), func(method, path string) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, method+" "+path)
	})
	require.NoError(t, err)
	t.Cleanup(registry.Close)
	to := registry.Addr + "/mirror/oooi"

	builder := packaging.Builder{Root: root, Out: t.TempDir(), Log: os.Stderr, Prebuilt: prebuilt(t)}
	archs := []string{"amd64"}
	digests := map[string]string{}
	built := table(t)
	for _, c := range built.Components {
		image, err := builder.Component(t.Context(), built, c.Name, archs)
		require.NoError(t, err)
		require.NoError(t, builder.Write(image, c.Tag()))
		digests[c.Name] = image.Digest
	}
	out := filepath.Join(t.TempDir(), "mirror")
	err = builder.Mirror(t.Context(), built, tool(t, "opm"), to, out, archs)
	require.ErrorContains(t, err, "the table says", "what is mirrored is what the table names")
	pinned := built.Pin(digests, built.Toolchain)
	require.NoError(t, builder.Mirror(t.Context(), pinned, tool(t, "opm"), to, out, archs))

	for _, c := range pinned.In(to).Components {
		resolves(t, c.Ref())
	}
	image := regexp.MustCompile(`\b([a-z0-9-]+(?:\.[a-z0-9-]+)+(?::[0-9]+)?)/([a-z0-9/._-]+)(@sha256:[0-9a-f]{64}|:v[0-9][0-9.]*)`)
	seen := 0
	kustomized, err := exec.CommandContext(t.Context(), tool(t, "kubectl"), "kustomize", filepath.Join(out, "manifests/openshift")).Output()
	require.NoError(t, err)
	check := func(where, words string) {
		for _, match := range image.FindAllStringSubmatch(words, -1) {
			require.Equal(t, registry.Addr, match[1], "%s: %s", where, match[0])
			resolves(t, match[0])
			seen++
		}
	}
	check("manifests/openshift", string(kustomized))
	for _, dir := range []string{"bundle/manifests", "catalog", "manifests/olm"} {
		require.NoError(t, fs.WalkDir(os.DirFS(out), dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			raw, err := os.ReadFile(filepath.Join(out, path))
			check(path, string(raw))
			return err
		}))
	}
	require.Greater(t, seen, 20)

	// opm reads the bundle from the mirror by the catalog's own words.
	home := t.TempDir()
	policy := filepath.Join(home, ".config/containers/policy.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(policy), 0o755))
	require.NoError(t, os.WriteFile(policy, []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o600))
	catalog, err := os.ReadFile(filepath.Join(out, "catalog/oooi", packaging.CSVName(pinned.Version)+".yaml"))
	require.NoError(t, err)
	bundle := image.FindString(string(catalog))
	cmd := exec.CommandContext(t.Context(), tool(t, "opm"), "render", bundle, "--use-http", "--migrate-level", "bundle-object-to-csv-metadata", "-o", "yaml")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"))
	rendered, err := cmd.Output()
	require.NoError(t, err)
	// The order of relatedImages is the renderer's own.
	require.Equal(t, sortedLines(string(catalog)), sortedLines(string(rendered)))
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, strings.Join(requests, "\n"), "GET /v2/mirror/oooi/oooi-bundle/manifests/sha256:")
}

func sortedLines(text string) []string {
	return slices.Sorted(strings.Lines(text))
}

// resolves asks the registry for an image by digest or tag.
func resolves(t *testing.T, reference string) {
	t.Helper()
	repository, version, byDigest := strings.Cut(reference, "@")
	if !byDigest {
		i := strings.LastIndex(reference, ":")
		repository, version = reference[:i], reference[i+1:]
	}
	host, path, _ := strings.Cut(repository, "/")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+host+"/v2/"+path+"/manifests/"+version, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode, reference)
}
