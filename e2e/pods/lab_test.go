package pods

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/images"
	"github.com/densityops/oooi/e2e/node"
)

// patience is how long a busy machine may take for what an idle one does at once.
const patience = 3 * time.Minute

// lab is a cluster with the three pods on it.
type lab struct {
	*node.Cluster
	progress *node.Progress
	// namespace of the three pods.
	namespace string
	// proxyPorts are the TCP ports that a scan finds on the proxy's address.
	proxyPorts string
	// a and b are what the certificates of the two control planes begin with.
	a, b string
	// bin holds oooi's binaries, tools everything else.
	bin, tools string
	standin    string
	root       string
}

// newLab brings the cluster up and takes it down when the test ends; after a
// failure all that explains it stays in e2e-out/NAME. With KEEP set the cluster
// stays up, in that directory.
func newLab(t *testing.T, name string, nodes int) *lab {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := os.Getenv("KEEP")
	if dir == "" {
		dir, err = os.MkdirTemp("/tmp", "oooi-e2e-") //nolint:usetesting // a killed test leaves it, and e2e-down finds it by name
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.Remove(dir) }) // where nothing was made, for Down removes all else
	}
	l := &lab{
		progress: node.NewProgress(os.Stdout, name),
		bin:      cmp.Or(os.Getenv("OOOI_BIN"), filepath.Join(root, "bin")),
		tools:    cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(root, "bin/tools")),
		standin:  filepath.Join(dir, "standin"),
		root:     root,
	}
	l.Cluster, err = node.Up(t.Context(), node.Options{Dir: dir, Tools: l.tools, Nodes: nodes, NetworkPolicy: nodes > 1, Progress: l.progress})
	kept := filepath.Join(root, "e2e-out", name)
	t.Cleanup(func() { l.end(t, kept) })
	require.NoError(t, err)
	l.keepInTime(t, kept)
	require.NoError(t, l.Capture())
	l.build(t, l.standin, "./cmd/standin")
	_, err = l.World.Daemon("upstream", l.standin, "upstream", node.UpstreamDNS+":53")
	require.NoError(t, err)
	require.NoError(t, node.Wait(t.Context(), patience, "the world's resolver", func(ctx context.Context) error {
		for _, transport := range []string{"+notcp", "+tcp"} {
			if err := l.World.Run(ctx, "dig", "+short", "+time=1", "+tries=1", transport, "@"+node.UpstreamDNS, "www.example.org"); err != nil {
				return err
			}
		}
		return nil
	}))
	return l
}

func (l *lab) build(t *testing.T, out, pkg string) {
	t.Helper()
	built, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", out, pkg).CombinedOutput()
	require.NoError(t, err, "building %s: %s", pkg, built)
}

// keepInTime keeps what explains a test that hangs: at its deadline it ends without
// any of its cleanups.
func (l *lab) keepInTime(t *testing.T, kept string) {
	deadline, limited := t.Deadline()
	if !limited {
		return
	}
	timer := time.AfterFunc(time.Until(deadline)-patience, func() {
		l.progress.Say("the time is nearly over")
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		l.keep(ctx, kept)
	})
	t.Cleanup(func() { timer.Stop() })
}

func (l *lab) end(t *testing.T, kept string) {
	if l.Cluster == nil {
		return
	}
	if t.Failed() {
		l.explain(t, kept)
	}
	if os.Getenv("KEEP") != "" {
		l.progress.Say("the cluster stays up, in %s", l.Dir())
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	// As "make e2e-down" does it, which knows what is written down and no more.
	c, err := node.Load(l.Dir(), l.progress)
	require.NoError(t, err)
	require.NoError(t, c.Down(ctx))
	left, err := filepath.Glob("/run/netns/" + l.ID() + "-*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// explain keeps what shows why a test has failed.
func (l *lab) explain(t *testing.T, kept string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
	defer cancel()
	if _, err := l.Kubectl(ctx, "get", "--raw", "/readyz"); err != nil {
		l.progress.Say("starting the API server, to ask it: %v", l.StartAPI(ctx))
	}
	l.keep(ctx, kept)
}

// loadImages builds every image that the manifests name, under that name, and
// loads it into the nodes.
func (l *lab) loadImages(t *testing.T, manifests ...string) {
	t.Helper()
	seen := map[string]bool{}
	var archives []string
	for _, manifest := range manifests {
		for _, reference := range imageReference.FindAllString(manifest, -1) {
			if seen[reference] {
				continue
			}
			seen[reference] = true
			archive := filepath.Join(l.Dir(), strings.NewReplacer("/", "-", ":", "-").Replace(reference)+".tar")
			spec := l.imageSpec(t, reference)
			spec.Stored = true
			image, err := images.Build(spec)
			require.NoError(t, err)
			require.NoError(t, images.WriteArchive(archive, reference, image))
			archives = append(archives, archive)
		}
	}
	require.NoError(t, l.ImportImages(t.Context(), archives...))
	l.progress.Say("%d images are built and loaded", len(archives))
}

// imageReference finds what can be pulled: HOST/PATH:TAG.
var imageReference = regexp.MustCompile(`\b(localhost|ghcr\.io|quay\.io/densityops|quay\.io/operator-framework|docker\.io)/[a-z0-9/_-]+:[A-Za-z0-9._-]+`)

// imageSpec is what an image holds, by the last word of its name.
func (l *lab) imageSpec(t *testing.T, reference string) images.Spec {
	t.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(path.Base(reference), "oooi-"), ":")
	tool := func(name string) images.File {
		return images.File{Path: "/" + name, Source: filepath.Join(l.tools, name), Mode: 0o755}
	}
	switch name {
	case "standin":
		return images.Spec{
			Entrypoint: []string{"/standin"}, User: "65532:65532",
			Files: []images.File{{Path: "/standin", Source: l.standin, Mode: 0o755}},
		}
	case "hosted":
		return images.Spec{User: "0:0", Files: []images.File{tool("etcd"), tool("kube-apiserver")}}
	case "clusterdns":
		return images.Spec{Entrypoint: []string{"/clusterdns"}, User: "65532:65532", Files: []images.File{tool("clusterdns")}}
	case "scorecard-test":
		return images.Spec{User: "65532:65532", Files: []images.File{{Path: "/usr/local/bin/scorecard-test", Source: filepath.Join(l.tools, name), Mode: 0o755}}}
	case "busybox":
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		return images.Spec{User: "0:0", Files: []images.File{{Path: "/bin/busybox", Source: path, Mode: 0o755}, {Path: "/bin/tar", Link: "busybox"}}}
	case "envoy":
		// With this machine's own C library, which is Debian's too.
		spec, err := images.Envoy("amd64", cmp.Or(os.Getenv("ENVOY"), filepath.Join(l.tools, "envoy")), "/")
		require.NoError(t, err)
		return spec
	}
	spec, err := images.Component(name, "amd64", l.bin)
	require.NoError(t, err)
	return spec
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(raw)
}

// snapshot reads one of the examples, changed by edit, as the ConfigMap that a
// pod mounts, and tells the version-independent generation it carries.
func (l *lab) snapshot(t *testing.T, component, kind string, edit func(config map[string]any)) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../snapshots", component+".json"))
	require.NoError(t, err)
	var snapshot map[string]any
	require.NoError(t, json.Unmarshal(raw, &snapshot))
	name := "vlan100-" + component
	uid, err := l.Kubectl(t.Context(), "get", kind, "-n", l.namespace, name, "-o", "jsonpath={.metadata.uid}")
	require.NoError(t, err)
	snapshot["child"] = map[string]any{"namespace": l.namespace, "name": name, "uid": uid, "generation": "1"}
	edit(snapshot[component].(map[string]any))
	plain, err := json.Marshal(snapshot)
	require.NoError(t, err)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err = io.Copy(w, bytes.NewReader(plain))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata":   map[string]any{"name": name, "namespace": l.namespace},
		"binaryData": map[string]any{"snapshot.json.gz": zipped.Bytes()},
	})
	require.NoError(t, err)
	return string(object)
}

// rollout waits until a Deployment has its pods Ready.
func (l *lab) rollout(t *testing.T, ns, deployment string) {
	t.Helper()
	start := time.Now()
	err := node.Wait(t.Context(), patience, ns+"/"+deployment+" to be Ready", func(ctx context.Context) error {
		_, err := l.Kubectl(ctx, "rollout", "status", "-n", ns, "deployment/"+deployment, "--timeout=3m")
		return err
	})
	if err != nil {
		pods, _ := l.Kubectl(t.Context(), "get", "pods", "-n", ns, "-o", "wide")
		words, _ := l.Kubectl(t.Context(), "get", "infras", "-A", "-o", "jsonpath={.items[*].status.conditions[*].message}")
		require.NoError(t, err, "%s\n%s", pods, words)
	}
	l.progress.Say("%s/%s is Ready (waited %.1fs)", ns, deployment, time.Since(start).Seconds())
}
