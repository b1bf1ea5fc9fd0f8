package pods

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// checkAttachmentChange removes one cluster and brings it back while a
// connection of the other is open (behaviour E8).
func (l *lab) checkAttachmentChange(t *testing.T, vmA, vmB *node.VM, b *hostedCluster) {
	ended := l.hold(t, vmA, "api."+domainA, 15)
	_, err := l.Kubectl(t.Context(), "delete", "-n", "clusters", "infraclusterattachment/"+b.Name, "--timeout=60s")
	require.NoError(t, err)
	require.NoError(t, node.Wait(t.Context(), 30*time.Second, "B's routes to be closed", func(ctx context.Context) error {
		if l.reaches(vmB, "api."+domainB, l.b+"/api")(ctx) == nil {
			return errors.New("B's API server is still reached")
		}
		return nil
	}))
	require.NoError(t, node.Wait(t.Context(), 30*time.Second, "B's names to be nobody's", l.resolves(vmB, "api."+domainB, "203.0.113.80")))
	require.NoError(t, l.Apply(t.Context(), render(t, "attachment.yaml", b)))
	start := time.Now()
	require.NoError(t, node.Wait(t.Context(), 30*time.Second, "B to be back", l.reaches(vmB, "api."+domainB, l.b+"/api")))
	require.NoError(t, node.Wait(t.Context(), 30*time.Second, "B's alias to be back", l.reaches(vmB, "", l.b+"/api")))
	l.progress.Say("an attachment that was applied anew serves after %.1fs", time.Since(start).Seconds())
	require.NoError(t, ended(), "a connection of A must live through it")
}

// dataPlane names the pods with their restarts.
func (l *lab) dataPlane(t *testing.T) string {
	t.Helper()
	out, err := l.Kubectl(t.Context(), "get", "pods", "-n", l.namespace, "-l", "app.kubernetes.io/managed-by=oooi-operator", "-o",
		`jsonpath={range .items[*]}{.metadata.uid} {.metadata.labels.app\.kubernetes\.io/component} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
	require.NoError(t, err)
	return out
}

// checkOperatorReplaced kills the operator, then rolls a changed one out; the
// data plane must not notice (behaviour B13). An image named in the resource
// replaces that component's pod alone (behaviour A8).
func (l *lab) checkOperatorReplaced(t *testing.T, vm *node.VM) {
	before := l.dataPlane(t)
	ended := l.hold(t, vm, "api."+domainA, 15)
	l.killed(t, "operator", func(context.Context) error { return nil })
	_, err := l.Kubectl(t.Context(), "set", "env", "-n", "oooi-system", "deployment/oooi-operator", "OOOI_LOG_LEVEL=debug")
	require.NoError(t, err)
	l.rollout(t, "oooi-system", "oooi-operator")
	l.expect(t, time.Minute, "infra/tenant-vlan100", "Available", "True")
	require.NoError(t, ended(), "a connection must outlive the operator")
	require.Equal(t, before, l.dataPlane(t), "pods of the data plane were replaced or restarted")

	const override = "localhost/e2e/oooi-coredns:2"
	l.loadImages(t, override)
	_, err = l.Kubectl(t.Context(), "patch", "-n", "clusters", "infra/tenant-vlan100", "--type=merge", "-p",
		`{"spec":{"infraComponents":{"dns":{"image":"`+override+`"}}}}`)
	require.NoError(t, err)
	require.NoError(t, node.Wait(t.Context(), time.Minute, "the image to be used", func(ctx context.Context) error {
		out, err := l.Kubectl(ctx, "get", "pods", "-n", l.namespace, "-l", "app.kubernetes.io/component=dns", "-o",
			`jsonpath={.items[*].spec.containers[*].image} {.items[*].status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && out != override+" True" {
			err = errors.New(out)
		}
		return err
	}))
	require.NoError(t, node.Wait(t.Context(), 20*time.Second, "DNS to answer", l.resolves(vm, "api."+domainA, proxyIP)))
	for line := range strings.Lines(before) {
		if !strings.Contains(line, " dns ") {
			require.Contains(t, l.dataPlane(t), line, "another component's pod was replaced")
		}
	}
	l.progress.Say("an image override replaced one pod")
}

// checkUninstall removes everything and looks for what is left (behaviour B6).
func (l *lab) checkUninstall(t *testing.T, clusters ...*hostedCluster) {
	_, err := l.Kubectl(t.Context(), "delete", "infraclusterattachments,infras", "-n", "clusters", "--all", "--timeout=90s")
	require.NoError(t, err)
	const kinds = "deployments,services,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,leases," +
		"dhcpservers,dnsservers,proxyservers,clusterrolebindings,pods"
	require.NoError(t, node.Wait(t.Context(), time.Minute, "our objects to be gone", func(ctx context.Context) error {
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
	_, err = l.KubectlIn(t.Context(), l.operatorManifest(t), "delete", "--ignore-not-found", "--timeout=90s", "-f", "-")
	require.NoError(t, err)
	out, err := l.Kubectl(t.Context(), "get", "customresourcedefinitions,clusterroles,clusterrolebindings,namespaces", "-o", "name")
	require.NoError(t, err)
	for _, trace := range []string{"oooi", "densityops"} {
		require.NotContains(t, out, trace)
	}
	l.progress.Say("nothing is left")
}
