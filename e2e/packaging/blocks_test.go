package packaging_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/e2e/lab"
	"github.com/densityops/oooi/e2e/packaging"
)

// runner runs a block's body; the directory is a clone of the repository.
type runner func(t *testing.T, g *ground, work, body string) (string, error)

// runners of the kinds of blocks. A word behind "sh" is a place, or what has
// happened before.
var runners = map[string]runner{
	" ":              func(*testing.T, *ground, string, string) (string, error) { return "", nil },
	"sh ":            onTheCluster,
	"sh hosted":      onTheCluster,
	"sh mirrored":    onTheCluster,
	"sh workstation": onAWorkstation,
	"sh openshift":   readByAShell,
	"sh olm":         after(fromOLM, onTheCluster),
	"sh old":         after(theOldOperator, onTheCluster),
	"sh gone":        after(theInfraIsGone, onTheCluster),
	"sh went-first":  after(theOperatorWentFirst, onTheCluster),
	"sh worker":      onAWorker,
	"sh pod":         inAPod,
	"yaml ":          wouldBeTaken,
	"yaml apply":     isTaken,
	"yaml kustomize": isAKustomization,
	"yaml oc-mirror": namesTheCatalog,
	"corefile ":      forwards,
}

// run runs a block where it belongs.
func (g *ground) run(t *testing.T, work string, b block) (string, error) {
	t.Helper()
	kind := b.language + " " + b.where
	run, found := runners[kind]
	if !found {
		return "", fmt.Errorf("a block %q cannot be run", kind)
	}
	return run(t, g, work, b.body)
}

// clone is what a person has who has cloned the repository and built it.
func clone(t *testing.T) string {
	t.Helper()
	work := t.TempDir()
	for _, dir := range []string{"manifests", "e2e/demo/objects"} {
		require.NoError(t, os.CopyFS(filepath.Join(work, dir), os.DirFS(filepath.Join(root, dir))))
	}
	operator, err := filepath.Abs(filepath.Join(root, "bin/operator"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(work, "bin"), 0o755))
	require.NoError(t, os.Symlink(operator, filepath.Join(work, "bin/operator")))
	return work
}

func onTheCluster(t *testing.T, g *ground, work, body string) (string, error) {
	t.Helper()
	return g.shell(t.Context(), work, body)
}

// onAWorkstation leaves what "make mirror" writes.
func onAWorkstation(t *testing.T, g *ground, work, body string) (string, error) {
	t.Helper()
	mirror := filepath.Join(work, "bin/mirror")
	require.NoError(t, os.RemoveAll(mirror))
	require.NoError(t, os.CopyFS(filepath.Join(mirror, "manifests"), os.DirFS(filepath.Join(root, "manifests"))))
	return g.shell(t.Context(), work, body)
}

// readByAShell: what only OpenShift has is read and not run.
func readByAShell(t *testing.T, g *ground, work, body string) (string, error) {
	t.Helper()
	for line := range strings.Lines(body) {
		require.True(t, strings.HasPrefix(line, "oc "), line)
	}
	return g.shell(t.Context(), work, "bash -n <<'END'\n"+body+"END\n")
}

func onAWorker(t *testing.T, g *ground, _, body string) (string, error) {
	t.Helper()
	return inHost(t.Context(), g.world.VMs[0].Host, body)
}

func inAPod(t *testing.T, g *ground, _, body string) (string, error) {
	t.Helper()
	return inHost(t.Context(), g.world.Hub, body, "DNS="+g.world.Network.DNSService.String(), "PROXY="+g.world.Network.ProxyService.String())
}

func wouldBeTaken(t *testing.T, g *ground, _, body string) (string, error) {
	t.Helper()
	return g.try(t.Context(), body, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-")
}

func isTaken(t *testing.T, g *ground, _, body string) (string, error) {
	t.Helper()
	return g.try(t.Context(), body, "apply", "--server-side", "--validate=strict", "-f", "-")
}

// isAKustomization lies beside manifests/default.
func isAKustomization(t *testing.T, g *ground, work, body string) (string, error) {
	t.Helper()
	site := filepath.Join(work, "manifests/site")
	require.NoError(t, os.MkdirAll(site, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(site, "kustomization.yaml"), []byte(body), 0o600))
	return g.try(t.Context(), "", "kustomize", site)
}

// namesTheCatalog: oc-mirror is told of our catalog, package and channel.
func namesTheCatalog(t *testing.T, _ *ground, _, body string) (string, error) {
	t.Helper()
	table, err := packaging.ReadTable(root)
	require.NoError(t, err)
	var set struct {
		Mirror struct {
			Operators []struct {
				Catalog  string
				Packages []struct {
					Name     string
					Channels []struct{ Name string }
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(body), &set))
	require.Len(t, set.Mirror.Operators, 1)
	operators := set.Mirror.Operators[0]
	require.Equal(t, table.CatalogImage()+":v"+table.Version, operators.Catalog)
	require.Equal(t, "oooi", operators.Packages[0].Name)
	require.Equal(t, table.DefaultChannel, operators.Packages[0].Channels[0].Name)
	return "", nil
}

// forwards: the cluster's DNS with that block asks our DNS Service.
func forwards(t *testing.T, g *ground, _, body string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Corefile")
	require.NoError(t, os.WriteFile(file, []byte(body), 0o600))
	coredns, err := filepath.Abs(filepath.Join(root, "bin/coredns"))
	require.NoError(t, err)
	server, err := g.world.Hub.Start(lab.Spec{Args: []string{coredns, "-conf", file}})
	require.NoError(t, err)
	eventually(t, 20*time.Second, "the cluster's DNS answers", func(ctx context.Context) error {
		out, err := inHost(ctx, g.world.Hub, "dig +short +time=1 +tries=1 @127.0.0.1 api.example-hcp-b.clusters.example.com")
		if err == nil && strings.TrimSpace(out) != g.world.Network.ProxyService.String() {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
	return "", server.Stop(10 * time.Second)
}

// after runs a block once something has happened.
func after(what func(t *testing.T, g *ground), run runner) runner {
	return func(t *testing.T, g *ground, work, body string) (string, error) {
		t.Helper()
		what(t, g)
		return run(t, g, work, body)
	}
}

func fromOLM(t *testing.T, g *ground) {
	t.Helper()
	g.apply(t, `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: oooi.v0.1.0, namespace: oooi-system, labels: {operators.coreos.com/oooi.oooi-system: ""}}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: oooi, namespace: oooi-system}
`)
}

func theOldOperator(t *testing.T, g *ground) {
	t.Helper()
	g.apply(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: oooi-controller-manager, namespace: oooi-system, labels: {control-plane: controller-manager}}
spec:
  selector: {matchLabels: {control-plane: controller-manager}}
  template:
    metadata: {labels: {control-plane: controller-manager}}
    spec: {containers: [{name: manager, image: "quay.io/cldmnky/oooi:latest"}]}
`)
}

func theInfraIsGone(t *testing.T, g *ground) {
	t.Helper()
	g.must(t, "delete", "infra", "-n", "clusters", "tenant-vlan100", "--timeout=120s")
	g.must(t, "delete", "dhcpserver", "-n", "default", "lab", "--timeout=120s")
}

// theOperatorWentFirst: resources are there and nobody looks after them.
func theOperatorWentFirst(t *testing.T, g *ground) {
	t.Helper()
	g.must(t, "apply", "--server-side", "-k", filepath.Join(root, "manifests/crd"))
	g.established(t)
	eventually(t, time.Minute, "an Infra is there", func(ctx context.Context) error {
		_, err := g.try(ctx, "", "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(root, "manifests/samples/infra.yaml"))
		return err
	})
}

// bound gives the servers what a backup is about: a server of no Infra, and a
// binding, which a DHCP server would report.
func (g *ground) bound(t *testing.T) {
	t.Helper()
	g.must(t, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(root, "manifests/samples/dhcpserver.yaml"))
	g.must(t, "patch", "dhcpserver", "-n", "clusters", "tenant-vlan100-dhcp", "--subresource=status", "--type=merge", "-p",
		`{"status":{"agent":{"bindings":[{"macAddress":"02:00:5e:10:00:0a","ip":"192.0.2.101","vmNamespace":"clusters-example-hcp-a","vmName":"example-hcp-a-7k2lq-x9fzt"}]}}}`)
}
