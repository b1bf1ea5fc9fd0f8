package packaging_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// managementObjects are the demo's, as a management cluster holds them: without
// what the operator makes itself and without VMs; of apps ingress nothing, since
// behind these hosted clusters is no API server.
func managementObjects(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "e2e/demo/objects/*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var out bytes.Buffer
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for document := range bytes.SplitSeq(raw, []byte("\n---")) {
			var o struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
			}
			require.NoError(t, yaml.Unmarshal(document, &o))
			switch {
			case o.Kind == "", o.Kind == "VirtualMachine", o.Kind == "VirtualMachineInstance":
				continue
			case o.Kind == "Service" && o.Metadata.Namespace == "clusters":
				continue
			case o.Kind == "InfraClusterAttachment":
				var attachment map[string]any
				require.NoError(t, yaml.Unmarshal(document, &attachment))
				delete(attachment, "status")
				delete(attachment["spec"].(map[string]any), "appsIngress")
				document, err = yaml.Marshal(attachment)
				require.NoError(t, err)
			}
			out.WriteString("\n---\n")
			out.Write(document)
		}
	}
	return out.String()
}
