package packaging_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/packaging"
)

// Behaviour I3, and hazard 234: client-side apply keeps a whole CRD in an
// annotation of at most 262144 bytes.
func TestAnAPIServerTakesTheKustomizations(t *testing.T) {
	for name, args := range map[string][]string{
		"default by server-side apply":   {"--server-side", "-k", "default"},
		"openshift by server-side apply": {"--server-side", "--force-conflicts", "-k", "openshift"},
		"default by client-side apply":   {"--dry-run=server", "-k", "default"},
	} {
		t.Run(name, func(t *testing.T) {
			c := sharedCluster(t)
			if name == "default by client-side apply" {
				c = newCluster(t)
				c.must(t, "create", "namespace", "oooi-system")
			}
			args[len(args)-1] = filepath.Join(root, "manifests", args[len(args)-1])
			out := c.must(t, append([]string{"apply"}, args...)...)
			for _, object := range []string{
				"customresourcedefinition.apiextensions.k8s.io/infras.hostedcluster.densityops.com",
				"deployment.apps/oooi-operator", "clusterrolebinding.rbac.authorization.k8s.io/oooi-operator",
			} {
				require.Contains(t, out, object)
			}
		})
	}
}

// TestTheDeploymentNamesEveryImageByDigest: behaviour A8.
func TestTheDeploymentNamesEveryImageByDigest(t *testing.T) {
	table, err := packaging.ReadTable(root)
	require.NoError(t, err)
	for _, kustomization := range []string{"default", "openshift"} {
		out := sharedCluster(t).must(t, "kustomize", filepath.Join(root, "manifests", kustomization))
		_, deployment, found := strings.Cut(out, "kind: Deployment")
		require.True(t, found)
		for _, c := range table.Components {
			switch {
			case c.Name == "operator":
				require.Contains(t, deployment, "image: "+c.Ref())
			case c.Env != "":
				require.Contains(t, deployment, "- name: "+c.Env+"\n          value: "+c.Ref())
			}
		}
	}
}

// Behaviour A1 to A5: the samples are what a person starts from.
func TestTheSamplesAreValid(t *testing.T) {
	c := sharedCluster(t)
	for _, namespace := range []string{"clusters"} {
		c.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	}
	samples, err := filepath.Glob(filepath.Join(root, "manifests/samples/*.yaml"))
	require.NoError(t, err)
	require.Len(t, samples, 6)
	for _, sample := range samples {
		out := c.must(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", sample)
		require.Contains(t, out, "hostedcluster.densityops.com/")
	}
}

// Hazard 232: OpenShift's restricted-v2 asks for what Pod Security's restricted
// asks for, and fixes the user itself.
func TestTheOperatorRunsUnderTheRestrictedProfile(t *testing.T) {
	c := sharedCluster(t)
	require.Contains(t, c.must(t, "get", "namespace", "oooi-system", "-o", "yaml"), "pod-security.kubernetes.io/enforce: restricted")
	template := c.must(t, "get", "deployment", "-n", "oooi-system", "oooi-operator", "-o", "jsonpath={.spec.template.spec}")
	require.NotContains(t, template, "runAsUser")
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"operator","namespace":"oooi-system"},"spec":` + template + `}`
	_, err := c.try(t.Context(), pod, "create", "--dry-run=server", "-f", "-")
	require.NoError(t, err)
	_, err = c.try(t.Context(), strings.Replace(pod, `"drop":["ALL"]`, `"drop":[]`, 1), "create", "--dry-run=server", "-f", "-")
	require.ErrorContains(t, err, "violates PodSecurity", "the check itself must see a pod that asks for more")
}
