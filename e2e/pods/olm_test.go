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

	"github.com/Masterminds/semver/v3"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/images"
	"github.com/densityops/oooi/e2e/node"
	"github.com/densityops/oooi/e2e/packaging"
)

const catalogAddress = "127.0.0.1:50051"

// serveImages builds the components' images and serves them in the world's
// registry. The tables name them there, by the digests that they have: the
// version of today, and a next one with another operator.
func (l *lab) serveImages(t *testing.T) (now, next packaging.Table) {
	t.Helper()
	now, err := packaging.ReadTable(l.root)
	require.NoError(t, err)
	now = now.In(node.Registry)
	version, err := semver.NewVersion(now.Version)
	require.NoError(t, err)
	next = now.At(version.IncMinor().String())
	dir := filepath.Join(l.Dir(), "registry")
	for i, component := range now.Components {
		if component.Env == "" && component.Name != "operator" {
			continue // nothing that runs here
		}
		spec := l.imageSpec(t, "localhost/"+component.Name+":1")
		now.Components[i].Digest = layOut(t, spec, filepath.Join(dir, path.Base(component.Image)))
		next.Components[i].Digest = now.Components[i].Digest
		if component.Name == "operator" {
			spec.Labels = map[string]string{"org.opencontainers.image.version": next.Version}
			next.Components[i].Image += "-next"
			next.Components[i].Digest = layOut(t, spec, filepath.Join(dir, path.Base(next.Components[i].Image)))
		}
	}
	_, err = l.World.Daemon("registry", l.standin, "registry", node.Registry, dir)
	require.NoError(t, err)
	require.NoError(t, node.Wait(t.Context(), patience, "the registry", func(context.Context) error {
		log, err := os.ReadFile(filepath.Join(l.World.Logs, "registry.log"))
		if err == nil && !strings.Contains(string(log), "complete") {
			err = errors.New(string(log))
		}
		return err
	}))
	l.progress.Say("the registry serves the images by digest")
	return now, next
}

// layOut builds an image into a directory and tells its digest.
func layOut(t *testing.T, spec images.Spec, dir string) string {
	t.Helper()
	spec.Stored = true
	image, err := images.Build(spec)
	require.NoError(t, err)
	index, err := images.Index(image)
	require.NoError(t, err)
	require.NoError(t, images.WriteLayout(dir, index))
	digest, err := index.Digest()
	require.NoError(t, err)
	return digest.String()
}

// startOLM starts OLM's own programs beside the API server, with a catalog of
// one bundle a version, and subscribes to it.
func (l *lab) startOLM(t *testing.T, tables ...packaging.Table) {
	t.Helper()
	api := moduleDir(t, "olm", "github.com/operator-framework/api")
	_, err := l.Kubectl(t.Context(), "create", "-f", filepath.Join(api, "crds"))
	require.NoError(t, err)
	// OLM ends at once where its own kinds are not served yet, and kubectl where one of
	// any kind has no condition yet.
	require.NoError(t, node.Wait(t.Context(), patience, "the kinds to be served", func(ctx context.Context) error {
		_, err := l.Kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all", "--timeout=1m")
		return err
	}))
	_, err = l.Kubectl(t.Context(), "create", "namespace", "olm")
	require.NoError(t, err)
	home := filepath.Join(l.Dir(), "olm")
	catalog := l.catalog(t, tables)
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
			line += "  startingCSV: " + packaging.CSVName(tables[0].Version) + "\n"
		case strings.Contains(line, "installPlanApproval: "):
			line = "  installPlanApproval: Manual\n"
		}
		subscription.WriteString(line)
	}
	require.NoError(t, node.Wait(t.Context(), patience, "OLM's resources to be served", func(ctx context.Context) error {
		return l.Apply(ctx, subscription.String())
	}))
	l.progress.Say("OLM runs, and oooi is subscribed to")
}

// catalog renders the bundles into a file-based catalog that holds their
// objects, so that nothing has to be unpacked.
func (l *lab) catalog(t *testing.T, tables []packaging.Table) string {
	t.Helper()
	dir := filepath.Join(l.Dir(), "catalog")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	channel := packaging.Channel{Schema: "olm.channel", Package: packaging.PackageName, Name: "alpha"}
	for _, table := range tables {
		version := table.Version
		require.NoError(t, table.Validate())
		bundle := filepath.Join(l.Dir(), "bundle-"+version)
		require.NoError(t, packaging.WriteBundle(l.root, bundle, table))
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
	require.NoError(t, node.Wait(t.Context(), patience, csv+" to be installed", func(ctx context.Context) error {
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
