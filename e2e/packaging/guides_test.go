package packaging_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/demo/world"
	"github.com/densityops/oooi/e2e/lab"
)

// The guides, in an order in which each leaves what the next one needs; the
// README is the first of them.
var guides = []string{
	"README", "hosted-cluster", "verification", "rights", "public-dns", "apps-ingress", "pod-view", "monitoring", "mirror-registries", "upgrade",
	"backup", "moving", "uninstall",
}

// block is a fenced block of a guide. What it is, and the word behind that, say
// how it is run; a block without a language is a picture. A block "output" is
// what the block before it prints; "..." in it stands for anything.
type block struct {
	line            int
	language, where string
	body, output    string
	checked         bool
}

func readGuide(t *testing.T, name string) []block {
	t.Helper()
	path := filepath.Join(root, "operator/docs", name+".md")
	if name == "README" {
		path = filepath.Join(root, "README.md")
	}
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var blocks []block
	var inside *block
	for i, line := range strings.Split(string(raw), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && inside == nil:
			language, where, _ := strings.Cut(fence, " ")
			inside = &block{line: i + 1, language: language, where: where}
		case isFence && inside.language == "output":
			last := &blocks[len(blocks)-1]
			last.output, last.checked, inside = inside.body, true, nil
		case isFence:
			blocks, inside = append(blocks, *inside), nil
		case inside != nil:
			inside.body += line + "\n"
		}
	}
	require.Nil(t, inside, "%s: a block has no end", name)
	require.NotEmpty(t, blocks)
	return blocks
}

// TestEveryCommandOfTheGuides: behaviour I4. kubectl's commands run against an
// API server with garbage collection, the operator and the objects of the demo;
// what runs on a worker or in a pod runs in the demo's own world, whose servers
// are real.
func TestEveryCommandOfTheGuides(t *testing.T) {
	g := newGround(t)
	for _, guide := range guides {
		t.Run(guide, func(t *testing.T) {
			g.restore(t)
			if guide == "backup" {
				g.bound(t)
			}
			work := clone(t)
			for _, b := range readGuide(t, guide) {
				where := fmt.Sprintf("%s.md:%d", guide, b.line)
				out, err := g.run(t, work, b)
				require.NoError(t, err, "%s:\n%s\nprinted: %s", where, b.body, out)
				if b.checked {
					require.Regexp(t, pattern(b.output), strings.TrimSpace(out), where)
				}
			}
		})
	}
}

func pattern(output string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.TrimSpace(output))
	return regexp.MustCompile(`^` + strings.ReplaceAll(quoted, `\.\.\.`, `[\s\S]*`) + `$`)
}

// ground is what the guides' commands run on.
type ground struct {
	*cluster
	world   *world.World
	objects string
	path    string
}

func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{cluster: newCluster(t)}
	g.path = filepath.Join(g.dir, "path")
	require.NoError(t, os.Mkdir(g.path, 0o755))
	require.NoError(t, os.Symlink(tool(t, "kubectl"), filepath.Join(g.path, "kubectl")))
	// Nothing is built or pushed here: that a target is there and takes what the
	// guide gives it is seen by asking make what it would do.
	repository, err := filepath.Abs(root)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(g.path, "make"),
		[]byte("#!/bin/sh\nexec /usr/bin/make -n -C "+repository+" \"$@\" >/dev/null\n"), 0o700))
	g.daemon(t, tool(t, "kube-controller-manager"), "--kubeconfig="+g.kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--use-service-account-credentials=false", "--service-account-private-key-file="+filepath.Join(g.dir, "sa.key"))
	g.apply(t, foreignCRDs())
	g.must(t, "create", "namespace", "openshift-marketplace")
	g.must(t, "apply", "--server-side", "-k", filepath.Join(root, "manifests/default"))
	g.established(t)
	g.objects = managementObjects(t)
	g.operator(t)
	g.vlan(t)
	return g
}

// restore puts back what a guide has deleted.
func (g *ground) restore(t *testing.T) {
	t.Helper()
	g.must(t, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(root, "manifests/default"))
	g.established(t)
	eventually(t, time.Minute, "the objects are there", func(ctx context.Context) error {
		_, err := g.try(ctx, g.objects, "apply", "--server-side", "--force-conflicts", "-f", "-")
		return err
	})
	eventually(t, 2*time.Minute, "the attachments are ready", func(ctx context.Context) error {
		_, err := g.try(ctx, "", "wait", "-n", "clusters", "ica", "--all", "--for=condition=Ready", "--timeout=10s")
		return err
	})
}

// operator starts the operator beside the API server.
func (g *ground) operator(t *testing.T) {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join(root, "bin/operator"))
	require.NoError(t, err)
	health := "127.0.0.1:" + freePort(t)
	g.daemonEnv(t, []string{"POD_NAMESPACE=oooi-system"}, binary, "--kubeconfig="+g.kubeconfig, "--leader-elect=off",
		"--hub-bind-address=127.0.0.1:"+freePort(t), "--metrics-bind-address=0", "--health-probe-bind-address="+health)
	eventually(t, 2*time.Minute, "the operator is ready", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	})
}

// vlan builds the demo's world.
func (g *ground) vlan(t *testing.T) {
	t.Helper()
	self, err := actor.Self()
	require.NoError(t, err)
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	require.NoError(t, err)
	envoy := os.Getenv("ENVOY")
	if envoy == "" {
		envoy = filepath.Join(bin, "tools/envoy")
	}
	g.world, err = world.Build(t.Context(), world.Options{
		Bin: bin, Envoy: envoy, Objects: []string{filepath.Join(root, "e2e/demo/objects")}, Dir: t.TempDir(), Self: self,
		Step: func(string) func(error) { return func(error) {} },
	})
	if g.world != nil {
		t.Cleanup(g.world.Lab.Close)
	}
	require.NoError(t, err)
}

// shell runs a script as a person would who may do everything.
func (g *ground) shell(ctx context.Context, dir, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+g.kubeconfig, "HOME="+g.dir, "PATH="+g.path+":"+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

func inHost(ctx context.Context, host *lab.Host, script string, env ...string) (string, error) {
	return host.Exec(ctx, lab.Spec{Args: []string{"bash", "-euo", "pipefail", "-c", script}, Env: env})
}

// foreignKinds are those of other projects that the guides or the operator
// read, here without a schema.
var foreignKinds = []struct{ group, version, kind, plural string }{
	{"hypershift.openshift.io", "v1beta1", "HostedCluster", "hostedclusters"},
	{"hypershift.openshift.io", "v1beta1", "HostedControlPlane", "hostedcontrolplanes"},
	{"hypershift.openshift.io", "v1beta1", "NodePool", "nodepools"},
	{"cluster.x-k8s.io", "v1beta1", "Machine", "machines"},
	{"k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions"},
	{"config.openshift.io", "v1", "ImageDigestMirrorSet", "imagedigestmirrorsets"},
	{"operators.coreos.com", "v1alpha1", "Subscription", "subscriptions"},
	{"operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions"},
	{"operators.coreos.com", "v1alpha1", "CatalogSource", "catalogsources"},
	{"operators.coreos.com", "v1", "OperatorGroup", "operatorgroups"},
	{"operators.coreos.com", "v1", "Operator", "operators"},
	{"operators.coreos.com", "v1alpha1", "InstallPlan", "installplans"},
	{"metallb.io", "v1beta1", "MetalLB", "metallbs"},
	{"metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools"},
	{"metallb.io", "v1beta1", "L2Advertisement", "l2advertisements"},
	{"monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"},
	{"monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"},
	{"operator.openshift.io", "v1", "DNS", "dnses"},
}

func foreignCRDs() string {
	var out strings.Builder
	for _, k := range foreignKinds {
		short := ""
		if k.kind == "ClusterServiceVersion" {
			short = ", shortNames: [csv]"
		}
		fmt.Fprintf(&out, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.%[1]s, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: %[1]s
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[4]s, singular: %[5]s%[6]s}
  scope: Namespaced
  versions:
    - name: %[2]s
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, k.group, k.version, k.kind, k.plural, strings.ToLower(k.kind), short)
	}
	return out.String()
}
