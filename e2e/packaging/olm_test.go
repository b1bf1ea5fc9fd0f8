package packaging_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/packaging"
)

// inlineCatalog is a catalog of the bundle's own objects: OLM needs no pod to
// unpack it, and here is no node. Each version is the bundle of today under
// another number.
func inlineCatalog(t *testing.T, versions ...string) string {
	t.Helper()
	dir := t.TempDir()
	channel := packaging.Channel{Schema: "olm.channel", Package: packaging.PackageName, Name: "alpha"}
	for _, version := range versions {
		next := table(t).At(version)
		require.NoError(t, next.Validate())
		bundle := filepath.Join(t.TempDir(), "bundle")
		require.NoError(t, packaging.WriteBundle(root, bundle, next))
		out, err := exec.CommandContext(t.Context(), tool(t, "opm"), "render", bundle, "-o", "yaml").Output()
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

// olm is an API server with OLM's own programs beside it.
type olm struct {
	*cluster
	address string
}

func startOLM(t *testing.T, catalog string) olm {
	t.Helper()
	c := newCluster(t)
	out, err := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "e2e/tools/olm"), "list", "-m", "-f", "{{.Dir}}",
		"github.com/operator-framework/api").Output()
	require.NoError(t, err)
	c.must(t, "create", "-f", filepath.Join(strings.TrimSpace(string(out)), "crds"))
	c.established(t)
	c.must(t, "create", "namespace", "olm")
	c.must(t, "create", "namespace", "oooi-system")
	port := freePort(t)
	c.daemon(t, tool(t, "opm"), "serve", catalog, "--cache-dir="+filepath.Join(c.dir, "cache"), "--cache-enforce-integrity=false",
		"--pprof-addr=", "--port="+port, "--termination-log="+filepath.Join(c.dir, "termination"))
	env := []string{"KUBECONFIG=" + c.kubeconfig, "HOME=" + c.dir}
	c.daemonEnv(t, env, tool(t, "olm-catalog"), "--kubeconfig", c.kubeconfig, "--namespace", "olm", "--writeStatusName", "")
	c.daemonEnv(t, env, tool(t, "olm"), "--writeStatusName", "", "--writePackageServerStatusName", "", "--namespace", "olm")
	return olm{cluster: c, address: "127.0.0.1:" + port}
}

// become waits until a field of an object has a value.
func (o olm) become(t *testing.T, want, path string, object ...string) {
	t.Helper()
	eventually(t, 3*time.Minute, strings.Join(object, " ")+" has "+path+" "+want, func(ctx context.Context) error {
		is, err := o.try(ctx, "", append([]string{"get", "-n", "oooi-system", "-o", "jsonpath=" + path}, object...)...)
		if err == nil && is != want {
			err = fmt.Errorf("it is %q", is)
		}
		return err
	})
}

// keepPodUp plays the part of the Deployment's controller and its node, which
// are not here: whatever OLM makes of the Deployment, the operator's pod is up.
func (o olm) keepPodUp(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		again := time.NewTicker(500 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			_ = o.podIsUp(ctx) // Before OLM has made the Deployment there is none.
			select {
			case <-ctx.Done():
			case <-again.C:
			}
		}
	}()
}

func (o olm) podIsUp(ctx context.Context) error {
	raw, err := o.try(ctx, "", "get", "-n", "oooi-system", "deployment", "oooi-operator", "-o", "json")
	if err != nil {
		return err
	}
	var deployment struct {
		Metadata struct{ Generation int }
		Status   struct{ ObservedGeneration, AvailableReplicas int }
	}
	if err := json.Unmarshal([]byte(raw), &deployment); err != nil {
		return err
	}
	if deployment.Status.ObservedGeneration == deployment.Metadata.Generation && deployment.Status.AvailableReplicas == 1 {
		return nil
	}
	status := fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,
		"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"up"},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"done"}]}}`, deployment.Metadata.Generation)
	_, err = o.try(ctx, "", "patch", "-n", "oooi-system", "deployment", "oooi-operator", "--subresource=status", "--type=merge", "-p", status)
	return err
}

// TestOLMInstallsAndUpgradesTheBundle runs OLM itself. Hazard 228: an upgrade
// waits while the operator says that it must not be upgraded.
func TestOLMInstallsAndUpgradesTheBundle(t *testing.T) {
	o := startOLM(t, inlineCatalog(t, "0.1.0", "0.2.0"))
	o.must(t, "create", "namespace", "openshift-marketplace")
	for _, sample := range []string{"kubernetes", "openshift"} {
		o.must(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", filepath.Join(root, "manifests/olm", sample+".yaml"))
	}
	sample, err := os.ReadFile(filepath.Join(root, "manifests/olm/kubernetes.yaml"))
	require.NoError(t, err)
	here := strings.NewReplacer(
		"image: "+table(t).CatalogImage()+":v"+table(t).Version, `address: "`+o.address+`"`,
		"channel: alpha", "channel: alpha\n  startingCSV: oooi.v0.1.0",
		"installPlanApproval: Automatic", "installPlanApproval: Manual",
	).Replace(string(sample))
	require.Contains(t, here, o.address)
	require.Contains(t, here, "startingCSV")
	o.apply(t, here)

	o.keepPodUp(t)
	o.approve(t, "oooi.v0.1.0")
	o.become(t, "Succeeded", "{.status.phase}", "csv", "oooi.v0.1.0")
	o.checkRights(t)

	o.apply(t, `
apiVersion: operators.coreos.com/v2
kind: OperatorCondition
metadata: {name: oooi.v0.1.0, namespace: oooi-system}
spec:
  conditions:
    - {type: Upgradeable, status: "False", reason: RollingOut, message: one Infra rolls out, lastTransitionTime: "2026-11-30T00:00:00Z"}
`, "--force-conflicts")
	o.approve(t, "oooi.v0.2.0")
	o.become(t, "Pending", "{.status.phase}", "csv", "oooi.v0.2.0")
	o.become(t, "OperatorConditionNotUpgradeable", "{.status.reason}", "csv", "oooi.v0.2.0")
	o.become(t, "Replacing", "{.status.phase}", "csv", "oooi.v0.1.0")
	o.must(t, "patch", "-n", "oooi-system", "operatorcondition", "oooi.v0.1.0", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/conditions/0/status","value":"True"}]`)
	o.become(t, "Succeeded", "{.status.phase}", "csv", "oooi.v0.2.0")
}

// approve waits for the plan that installs a version, approves it, and waits
// until it is carried out.
func (o olm) approve(t *testing.T, name string) {
	t.Helper()
	eventually(t, 3*time.Minute, "the plan for "+name+" is carried out", func(ctx context.Context) error {
		raw, err := o.try(ctx, "", "get", "-n", "oooi-system", "installplan", "-o", "json")
		if err != nil {
			return err
		}
		var plans struct {
			Items []struct {
				Metadata struct{ Name string }
				Spec     struct{ ClusterServiceVersionNames []string }
				Status   struct{ Phase string }
			}
		}
		if err := json.Unmarshal([]byte(raw), &plans); err != nil {
			return err
		}
		for _, plan := range plans.Items {
			if !slices.Equal(plan.Spec.ClusterServiceVersionNames, []string{name}) {
				continue
			}
			switch plan.Status.Phase {
			case "Complete":
				return nil
			case "RequiresApproval":
				if _, err := o.try(ctx, "", "patch", "-n", "oooi-system", "installplan", plan.Metadata.Name,
					"--type=merge", "-p", `{"spec":{"approved":true}}`); err != nil {
					return err
				}
			}
			return fmt.Errorf("it is %s", plan.Status.Phase)
		}
		return errors.New("there is none")
	})
}

// checkRights says what OLM made of the bundle's rights, and what it adds by
// itself: roles for the kinds, joined to admin, edit and view. The guide "What
// each right amounts to" tells of them.
func (o olm) checkRights(t *testing.T) {
	t.Helper()
	can := func(words ...string) string {
		out, _ := o.try(t.Context(), "", append([]string{"auth", "can-i", "--as=system:serviceaccount:oooi-system:oooi-operator"}, words...)...)
		return strings.TrimSpace(out)
	}
	require.Equal(t, "yes", can("list", "infras.hostedcluster.densityops.com", "-A"))
	require.Equal(t, "no", can("list", "secrets", "-A"))
	require.Equal(t, "yes", can("bind", "clusterroles/oooi-vmi-reader"))
	require.Equal(t, "no", can("bind", "clusterroles/cluster-admin"))
	require.Equal(t, "no", can("impersonate", "users"))
	require.Equal(t, "yes", can("create", "secrets", "-n", "default"), "OLM makes the operator's Role a ClusterRole")
	require.Contains(t, o.must(t, "get", "clusterrole", "infras.hostedcluster.densityops.com-v1alpha1-edit", "-o", "jsonpath={.metadata.labels}"),
		`"rbac.authorization.k8s.io/aggregate-to-edit":"true"`)
}
