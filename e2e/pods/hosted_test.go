package pods

import (
	"bytes"
	"context"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// hostedCluster is a hosted cluster with a real API server.
type hostedCluster struct {
	Name, MAC string
	// Pool is what MetalLB may give on the VLAN.
	Pool string
	// PKI and Kubeconfig are what the Secrets of its namespace hold, in base64.
	PKI        map[string]string
	Kubeconfig string
	authority  *node.Authority
}

func (h *hostedCluster) namespace() string { return "clusters-" + h.Name }
func (h *hostedCluster) domain() string    { return h.Name + ".clusters.example.com" }

// vip is the first address of the pool, which the router's Service gets.
func (h *hostedCluster) vip() string {
	first, _, _ := strings.Cut(h.Pool, "-")
	return first
}

// newHosted makes a hosted cluster's certificates.
func (l *lab) newHosted(t *testing.T, name, mac, pool string) *hostedCluster {
	t.Helper()
	h := &hostedCluster{Name: name, MAC: mac, Pool: pool, PKI: map[string]string{}}
	var err error
	h.authority, err = node.NewAuthority(filepath.Join(l.Dir(), "hosted-"+name))
	require.NoError(t, err)
	require.NoError(t, h.authority.ServiceAccountKeys())
	require.NoError(t, h.authority.Sign("apiserver", pkix.Name{CommonName: name + "/api"},
		"api."+h.domain(), "api-int."+h.domain(), proxyIP, "127.0.0.1",
		"kube-apiserver", "kube-apiserver."+h.namespace()+".svc", "kube-apiserver."+h.namespace()+".svc.cluster.local",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"))
	require.NoError(t, h.authority.Sign("admin", pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}))
	require.NoError(t, h.authority.Kubeconfig("admin", "https://kube-apiserver:6443"))
	for _, file := range []string{"ca.crt", "apiserver.crt", "apiserver.key", "sa.key", "sa.pub"} {
		h.PKI[file] = base64File(t, h.authority.Path(file))
	}
	h.Kubeconfig = base64File(t, h.authority.Path("admin.kubeconfig"))
	return h
}

func base64File(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(raw)
}

// render fills a template of testdata in.
func render(t *testing.T, name string, data any) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, template.Must(template.New(name).Parse(testdata(t, name))).Execute(&out, data))
	return out.String()
}

// startHosted applies a hosted cluster. The VirtualMachineInstance gets its
// VirtualMachine as owner, as KubeVirt sets it.
func (l *lab) startHosted(t *testing.T, h *hostedCluster) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, "hosted clusters to be accepted", func(ctx context.Context) error {
		return l.Apply(ctx, render(t, "hosted.yaml", h))
	}))
	worker := h.Name + "-worker"
	uid, err := l.Kubectl(t.Context(), "get", "vm", "-n", h.namespace(), worker, "-o", "jsonpath={.metadata.uid}")
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "patch", "vmi", "-n", h.namespace(), worker, "--type=merge", "-p", fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","name":%q,"uid":%q,"controller":true}]}}`, worker, uid))
	require.NoError(t, err)
}

// applyCRDs applies the real resources of HyperShift and Cluster API, and
// KubeVirt's by hand.
func (l *lab) applyCRDs(t *testing.T) {
	t.Helper()
	dir := func(module string) string { return moduleDir(t, "crds", module) }
	gated := filepath.Join(dir("github.com/openshift/hypershift/api"), "hypershift/v1beta1/zz_generated.featuregated-crd-manifests")
	files := []string{
		filepath.Join(gated, "hostedclusters.hypershift.openshift.io/AAA_ungated.yaml"),
		filepath.Join(gated, "hostedcontrolplanes.hypershift.openshift.io/AAA_ungated.yaml"),
		filepath.Join(gated, "nodepools.hypershift.openshift.io/AAA_ungated.yaml"),
		filepath.Join(dir("sigs.k8s.io/cluster-api"), "core/config/crd/bases/cluster.x-k8s.io_machines.yaml"),
		"testdata/crds/kubevirt.yaml",
	}
	var all strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(raw)) {
			// An annotation without a name: the generator's slip.
			if !strings.Contains(line, "feature-gate.release.openshift.io/:") {
				all.WriteString(line)
			}
		}
		all.WriteString("\n---\n")
	}
	require.NoError(t, l.Apply(t.Context(), all.String()))
	_, err := l.Kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(l.root, "manifests/crd"))
	require.NoError(t, err)
}
