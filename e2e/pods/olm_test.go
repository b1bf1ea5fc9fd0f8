package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/images"
	"github.com/densityops/oooi/e2e/node"
	"github.com/densityops/oooi/e2e/packaging"
)

const catalogAddress = "127.0.0.1:50051"

// TestOLM installs oooi as a user of a mirror registry does, by a CatalogSource
// and a Subscription that real OLM carries out, and upgrades it under a running
// data plane (behaviours B13, I2).
func TestOLM(t *testing.T) {
	l := newLab(t, "olm", 1)
	l.namespace, l.a = "clusters", "example-hcp-a"
	a := l.newHosted(t, l.a, macA)
	l.deployWorld(t, a)
	table := l.serveImages(t)
	l.startOLM(t, table, "0.1.0", "0.2.0")
	l.approve(t, "oooi.v0.1.0")
	l.rollout(t, "oooi-system", "oooi-operator")
	l.attach(t, a)
	vm := l.worker(t, a)
	l.checkImages(t, table)

	before := l.dataPlane(t)
	ended := l.hold(t, vm, "api."+domainA, 20)
	l.approve(t, "oooi.v0.2.0")
	l.expect(t, time.Minute, "infra/tenant-vlan100", "Available", "True")
	require.NoError(t, ended(), "a connection must outlive an upgrade")
	require.Equal(t, before, l.dataPlane(t), "an upgrade replaced pods whose images are the same")
	l.progress.Say("an upgrade left the data plane untouched")
	l.checkOverride(t)
	l.checkScorecard(t)

	_, err := l.Kubectl(t.Context(), "delete", "infraclusterattachments,infras", "-n", "clusters", "--all", "--timeout=90s")
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "delete", "subscription,clusterserviceversion", "-n", "oooi-system", "--all", "--timeout=90s")
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "wait", "--for=delete", "pods", "-n", "oooi-system", "--all", "--timeout=60s")
	require.NoError(t, err)
}

// serveImages builds the components' images and serves them in the world's
// registry. The table names them there, by the digests that they have.
func (l *lab) serveImages(t *testing.T) packaging.Table {
	t.Helper()
	table, err := packaging.ReadTable(l.root)
	require.NoError(t, err)
	table = table.In(node.Registry)
	dir, libc := filepath.Join(l.Dir(), "registry"), l.unpackLibc(t)
	for i, component := range table.Components {
		if component.Env == "" && component.Name != "operator" {
			continue // nothing that runs here
		}
		spec := l.imageSpec(t, "localhost/"+component.Name+":1", libc)
		spec.Stored = true
		image, err := images.Build(spec)
		require.NoError(t, err)
		index, err := images.Index(image)
		require.NoError(t, err)
		require.NoError(t, images.WriteLayout(filepath.Join(dir, path.Base(component.Image)), index))
		digest, err := index.Digest()
		require.NoError(t, err)
		table.Components[i].Digest = digest.String()
	}
	_, err = l.World.Daemon("registry", l.standin, "registry", node.Registry, dir)
	require.NoError(t, err)
	require.NoError(t, node.Wait(t.Context(), time.Minute, "the registry", func(context.Context) error {
		log, err := os.ReadFile(filepath.Join(l.World.Logs, "registry.log"))
		if err == nil && !strings.Contains(string(log), "complete") {
			err = errors.New(string(log))
		}
		return err
	}))
	l.progress.Say("the registry serves the images by digest")
	return table
}

// startOLM starts OLM's own programs beside the API server, with a catalog of
// one bundle a version, and subscribes to it.
func (l *lab) startOLM(t *testing.T, table packaging.Table, versions ...string) {
	t.Helper()
	api := moduleDir(t, "olm", "github.com/operator-framework/api")
	_, err := l.Kubectl(t.Context(), "create", "-f", filepath.Join(api, "crds"))
	require.NoError(t, err)
	// OLM ends at once where its own kinds are not served yet.
	_, err = l.Kubectl(t.Context(), "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "create", "namespace", "olm")
	require.NoError(t, err)
	home := filepath.Join(l.Dir(), "olm")
	catalog := l.catalog(t, table, versions...)
	env := []string{"env", "HOME=" + home, "KUBECONFIG=" + l.Kubeconfig()}
	for name, argv := range map[string][]string{
		"opm": {
			"opm", "serve", catalog, "--cache-dir=" + home, "--cache-enforce-integrity=false", "--pprof-addr=", "--port=50051",
			"--termination-log=" + filepath.Join(home, "termination"),
		},
		"olm-catalog": {"olm-catalog", "--kubeconfig", l.Kubeconfig(), "--namespace", "olm", "--writeStatusName", ""},
		"olm":         {"olm", "--writeStatusName", "", "--writePackageServerStatusName", "", "--namespace", "olm"},
	} {
		argv[0] = filepath.Join(l.tools, argv[0])
		_, err := l.Control.Daemon(name, append(env, argv...)...)
		require.NoError(t, err)
	}
	sample, err := os.ReadFile(filepath.Join(l.root, "manifests/olm/kubernetes.yaml"))
	require.NoError(t, err)
	var subscription strings.Builder
	for line := range strings.Lines(string(sample)) {
		switch {
		case strings.Contains(line, "image: ") && strings.Contains(line, "oooi-catalog"):
			line = "  address: " + catalogAddress + "\n"
		case strings.Contains(line, "channel: "):
			line += "  startingCSV: " + packaging.CSVName(versions[0]) + "\n"
		case strings.Contains(line, "installPlanApproval: "):
			line = "  installPlanApproval: Manual\n"
		}
		subscription.WriteString(line)
	}
	require.NoError(t, node.Wait(t.Context(), 30*time.Second, "OLM's resources to be served", func(ctx context.Context) error {
		return l.Apply(ctx, subscription.String())
	}))
	l.progress.Say("OLM runs, and oooi is subscribed to")
}

// catalog renders the bundles into a file-based catalog that holds their
// objects, so that nothing has to be unpacked.
func (l *lab) catalog(t *testing.T, table packaging.Table, versions ...string) string {
	t.Helper()
	dir := filepath.Join(l.Dir(), "catalog")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	channel := packaging.Channel{Schema: "olm.channel", Package: packaging.PackageName, Name: "alpha"}
	for _, version := range versions {
		next := table
		next.Version = version
		next.Components = append([]packaging.Component(nil), table.Components...)
		for i := range next.Components {
			if next.Components[i].Env == "" {
				next.Components[i].Version = "v" + version
			}
		}
		require.NoError(t, next.Validate())
		bundle := filepath.Join(l.Dir(), "bundle-"+version)
		require.NoError(t, packaging.WriteBundle(l.root, bundle, next))
		out, err := exec.CommandContext(t.Context(), filepath.Join(l.tools, "opm"), "render", bundle, "-o", "yaml").Output()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, version+".yaml"), out, 0o600))
		channel = channel.With(packaging.CSVName(version), ">=0.0.1 <"+version)
	}
	raw, err := json.Marshal(channel)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "channel.json"), raw, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"),
		[]byte(`{"schema":"olm.package","name":"oooi","defaultChannel":"alpha"}`), 0o600))
	return dir
}

// approve approves the plan that installs a version and waits until OLM has
// carried it out.
func (l *lab) approve(t *testing.T, csv string) {
	t.Helper()
	start := time.Now()
	require.NoError(t, node.Wait(t.Context(), 3*time.Minute, csv+" to be installed", func(ctx context.Context) error {
		plans, err := l.Kubectl(ctx, "get", "installplans", "-n", "oooi-system", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.spec.approved} {.spec.clusterServiceVersionNames} {.status.phase}{"\n"}{end}`)
		if err != nil {
			return err
		}
		for plan := range strings.Lines(plans) {
			fields := strings.Fields(plan)
			// OLM makes a plan anew that is changed before it has written its phase.
			if len(fields) == 4 && fields[1] == "false" && fields[2] == `["`+csv+`"]` && fields[3] == "RequiresApproval" {
				if _, err := l.Kubectl(ctx, "patch", "installplan", "-n", "oooi-system", fields[0], "--type=merge", "-p", `{"spec":{"approved":true}}`); err != nil {
					return err
				}
			}
		}
		out, err := l.Kubectl(ctx, "get", "csv", "-n", "oooi-system", csv, "-o", "jsonpath={.status.phase} {.status.message}")
		if err == nil && !strings.HasPrefix(out, "Succeeded ") {
			err = fmt.Errorf("it is %s; plans: %s", out, plans)
		}
		return err
	}))
	l.progress.Say("OLM has installed %s (waited %.1fs)", csv, time.Since(start).Seconds())
}

// checkImages looks at what runs: each image comes from the mirror, by digest.
func (l *lab) checkImages(t *testing.T, table packaging.Table) {
	t.Helper()
	out, err := l.Kubectl(t.Context(), "get", "pods", "-A", "-l", "app.kubernetes.io/name in (oooi, oooi-operator)", "-o",
		`jsonpath={range .items[*].spec.initContainers[*]}{.image}{"\n"}{end}{range .items[*].spec.containers[*]}{.image}{"\n"}{end}`)
	require.NoError(t, err)
	require.NotEmpty(t, strings.TrimSpace(out))
	known := map[string]bool{}
	for _, component := range table.Components {
		known[component.Ref()] = true
	}
	for image := range strings.Lines(out) {
		require.True(t, known[strings.TrimSpace(image)], "%s runs, and the table does not name it", image)
	}
	l.progress.Say("everything runs from the mirror registry, by digest")
}
