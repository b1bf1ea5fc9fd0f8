package contract_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// agents are the three that write a status: the module, the sample that shows
// its kind, and the field owner that it writes with.
var agents = []struct{ module, sample, owner string }{
	{"dhcpd", "dhcpserver.yaml", "oooi-dhcpd"},
	{"corednsplugin", "dnsserver.yaml", "oooi-coredns"},
	{"xds-manager", "proxyserver.yaml", "oooi-xds-manager"},
}

// TestAnAgentsStatusFitsItsCRD applies what each agent writes to the status of a
// real object, strictly (behaviour H4): a field that the CRD lacks is an error
// and is not dropped silently.
func TestAnAgentsStatusFitsItsCRD(t *testing.T) {
	c := newCluster(t)
	for _, agent := range agents {
		t.Run(agent.module, func(t *testing.T) {
			golden := read(t, root(t, agent.module, "internal", "report", "testdata", "status.golden.json"))
			var object map[string]any
			require.NoError(t, json.Unmarshal([]byte(golden), &object))
			meta := object["metadata"].(map[string]any)
			if namespace := meta["namespace"].(string); namespace != "default" {
				c.must(t, "", "create", "namespace", namespace)
			}
			var sample map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(read(t, root(t, "manifests", "samples", agent.sample))), &sample))
			require.Equal(t, object["kind"], sample["kind"])
			sample["metadata"] = meta
			c.must(t, encode(t, sample), "apply", "--server-side", "-f", "-")

			c.must(t, golden, "apply", "--server-side", "--subresource=status", "--validate=strict", "--force-conflicts",
				"--field-manager="+agent.owner, "-f", "-")

			stored := c.must(t, "", "-n", meta["namespace"].(string), "get", object["kind"].(string), meta["name"].(string), "-o", "json")
			var after map[string]any
			require.NoError(t, json.Unmarshal([]byte(stored), &after))
			require.Equal(t, object["status"], after["status"], "every field is kept as it was written")
		})
	}
}

// TestTheOperatorReadsWhatAgentsWrite compares the operator's copies of the
// agents' status with the agents' own.
func TestTheOperatorReadsWhatAgentsWrite(t *testing.T) {
	for _, agent := range agents {
		t.Run(agent.module, func(t *testing.T) {
			own := read(t, root(t, agent.module, "internal", "report", "testdata", "status.golden.json"))
			copies := find(t, root(t, "operator"), func(path string) bool { return statusCopy(path, agent.module) })
			require.NotEmpty(t, copies, "a copy in operator/.../testdata/, the path says status, the file's name "+agent.module)
			for _, path := range copies {
				require.Equal(t, own, read(t, path), path)
			}
		})
	}
}

// statusCopy says whether a file of the operator is its copy of a module's status.
func statusCopy(path, module string) bool {
	name := filepath.Base(path)
	return strings.Contains(path, "/testdata/") && strings.Contains(path, "status") &&
		strings.Contains(name, module) && strings.HasSuffix(name, ".json")
}

func encode(t *testing.T, object any) string {
	t.Helper()
	out, err := json.Marshal(object)
	require.NoError(t, err)
	return string(out)
}
