package pods

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
	"github.com/densityops/oooi/e2e/packaging"
)

// checkUninstall removes oooi as operator/docs/uninstall.md says, where it came by
// OLM and *.apps of the first cluster is served, and looks for what is left
// (behaviours B6, I4).
func (l *lab) checkUninstall(t *testing.T, vm *node.VM, clusters ...*hostedCluster) {
	for i := range l.Nodes {
		require.NoError(t, l.RestartKubelet(t.Context(), i+1)) // it would sit on the outage for a minute
	}
	g := l.guest(t, vm, clusters[0])
	g.declare(t, true)
	l.phase(t, clusters[0], "Ready/ReconciliationSucceeded")
	l.checkResourcesGo(t, clusters...)
	g.checkNothingInside(t)
	crds, err := l.Kubectl(t.Context(), "get", "crd", "-o", `jsonpath={.items[?(@.spec.group=="hostedcluster.densityops.com")].metadata.name}`)
	require.NoError(t, err)
	require.Len(t, strings.Fields(crds), 5)
	for _, args := range [][]string{
		{"subscription", "-n", "oooi-system", "oooi"},
		{"csv", "-n", "oooi-system", "-l", "operators.coreos.com/oooi.oooi-system"},
		append([]string{"crd"}, strings.Fields(crds)...),
		// OLM's to remove, but it forgets them once it has upgraded.
		{"clusterrole", "--ignore-not-found", "oooi-dhcpd", "oooi-vmi-reader"},
		// What the user made for it.
		{"catalogsource", "-n", "olm", "oooi-catalog"},
		{"namespace", "oooi-system"},
	} {
		_, err := l.Kubectl(t.Context(), append([]string{"delete", "--timeout=3m"}, args...)...)
		require.NoError(t, err)
		l.progress.Say("deleted: %s", args[0])
	}
	// OLM makes its record anew until it has seen that everything is gone.
	require.NoError(t, node.Wait(t.Context(), patience, "OLM to forget the operator", func(ctx context.Context) error {
		_, err := l.Kubectl(ctx, "delete", "operators.operators.coreos.com", "--ignore-not-found", "--timeout=10s", "oooi.oooi-system")
		if err != nil {
			return err
		}
		return l.traces(ctx)
	}))
	l.checkNothingLeft(t)
}

// checkResourcesGo deletes attachments and Infras, and looks for what they made.
func (l *lab) checkResourcesGo(t *testing.T, clusters ...*hostedCluster) {
	t.Helper()
	for _, kind := range []string{"infraclusterattachments", "infras"} {
		_, err := l.Kubectl(t.Context(), "delete", kind, "-A", "--all", "--timeout=3m")
		require.NoError(t, err)
		l.progress.Say("deleted: %s", kind)
	}
	const kinds = "deployments,services,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,leases," +
		"dhcpservers,dnsservers,proxyservers,clusterrolebindings,pods"
	require.NoError(t, node.Wait(t.Context(), patience, "our objects to be gone", func(ctx context.Context) error {
		out, err := l.Kubectl(ctx, "get", kinds, "-A", "-l", "app.kubernetes.io/managed-by=oooi-operator", "-o", "name")
		if err == nil && strings.TrimSpace(out) != "" {
			err = errors.New(out)
		}
		return err
	}))
	for _, cluster := range clusters {
		out, err := l.Kubectl(t.Context(), "get", "networkpolicies,rolebindings", "-n", cluster.namespace(), "-o", "name")
		require.NoError(t, err)
		require.NotContains(t, out, "allow-infrastructure")
		require.NotContains(t, out, "oooi")
	}
	_, err := l.Kubectl(t.Context(), "label", "namespace", "clusters", "hostedcluster.densityops.com/network-policy-group-")
	require.NoError(t, err)
}

// checkNothingLeft looks for traces of us, in the API and on the nodes.
func (l *lab) checkNothingLeft(t *testing.T) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, "every trace to be gone", l.traces))
	for _, box := range l.Nodes {
		require.NoError(t, node.Wait(t.Context(), patience, "our processes to end", func(ctx context.Context) error {
			running, err := running(ctx, box, "operator", "dhcpd", "coredns", "xds-manager", "envoy")
			if err == nil && len(running) > 0 {
				err = fmt.Errorf("%s runs %v", box.Name, running)
			}
			return err
		}))
	}
	l.progress.Say("nothing is left")
}

// traces reads every object of every kind that the API server has, but for events
// and for nodes, which list images: none of them is ours, none speaks of us.
func (l *lab) traces(ctx context.Context) error {
	kinds, err := l.Kubectl(ctx, "api-resources", "--verbs=list", "-o", "name")
	if err != nil {
		return err
	}
	var all []string
	for kind := range strings.FieldsSeq(kinds) {
		if !strings.HasPrefix(kind, "events") && kind != "componentstatuses" && kind != "nodes" {
			all = append(all, kind)
		}
	}
	out, err := l.Kubectl(ctx, "get", strings.Join(all, ","), "-A", "-o", "yaml")
	if err != nil {
		return err
	}
	var found []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "oooi") || strings.Contains(line, "densityops") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	if len(found) > 0 {
		return errors.New("left: " + strings.Join(found, "\n"))
	}
	return nil
}

// checkKustomization installs oooi without OLM, as "kubectl apply -k
// manifests/default" does, with the images of the registry here, and removes it.
func (l *lab) checkKustomization(t *testing.T, table packaging.Table, cluster *hostedCluster) {
	published, err := packaging.ReadTable(l.root)
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), filepath.Join(l.tools, "kubectl"), "kustomize", filepath.Join(l.root, "manifests/default")).Output()
	require.NoError(t, err)
	manifest := string(out)
	for i, component := range published.Components {
		manifest = strings.ReplaceAll(manifest, component.Ref(), table.Components[i].Ref())
	}
	require.NotContains(t, manifest, published.Registry()+"/")
	require.NoError(t, node.Wait(t.Context(), patience, "the manifests to be accepted", func(ctx context.Context) error {
		return l.Apply(ctx, manifest)
	}))
	l.rollout(t, "oooi-system", "oooi-operator")
	l.attach(t, cluster)
	l.checkImages(t, table)
	l.checkResourcesGo(t, cluster)
	_, err = l.KubectlIn(t.Context(), manifest, "delete", "--timeout=3m", "-f", "-")
	require.NoError(t, err)
	l.checkNothingLeft(t)
}
