package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMustGatherCollects runs the script of the image with the image's own
// shell against an API server: it collects what is there, says what is not, and
// reads no Secret.
func TestMustGatherCollects(t *testing.T) {
	c := sharedCluster(t)
	c.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: clusters}}")
	c.must(t, "apply", "--server-side", "-f", filepath.Join(root, "manifests/samples/infra.yaml"))
	c.apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: oooi-system}, stringData: {key: never-shown}}")
	to, path := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(tool(t, "kubectl"), filepath.Join(path, "kubectl")))
	cmd := exec.CommandContext(t.Context(), "busybox", "sh", filepath.Join(root, "manifests/must-gather/gather"), to)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "PATH="+path+":"+os.Getenv("PATH"), "HOME="+c.dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	c.must(t, "delete", "-f", filepath.Join(root, "manifests/samples/infra.yaml"))
	read := func(file string) string {
		raw, err := os.ReadFile(filepath.Join(to, file))
		require.NoError(t, err)
		return string(raw)
	}
	require.Contains(t, read("cluster-scoped-resources/infras.yaml"), "name: tenant-vlan100")
	require.Contains(t, read("version"), table(t).Components[0].Ref())
	require.Contains(t, read("namespaces/oooi-system/objects.yaml"), "name: oooi-operator")
	require.Contains(t, read("gather.log"), "virtualmachineinstances.kubevirt.io", "what the cluster lacks is named")
	require.NoError(t, filepath.WalkDir(to, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		require.NotContains(t, strings.ToLower(read(strings.TrimPrefix(file, to))), "never-shown")
		return nil
	}))
}
