package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files")

// behaviour H4, C9: exactly this is what dhcpd writes; the operator decodes
// the same file.
func TestTheStatusThatIsWrittenIsTheContract(t *testing.T) {
	o := Object{
		APIVersion: APIVersion, Kind: Kind,
		Metadata: Metadata{Namespace: "default", Name: "infra-dhcp"},
		Status: Status{Agent: Agent{
			ObservedVersion:    "sha256:4906c5c4bcc0cdcbb92266c9d573a9219a58a9278089dd884a312b049d75706f",
			ObservedGeneration: 3,
			ModuleVersion:      "v0.1.0",
			Contract:           "agent.v1",
			Problems:           []Problem{{Reason: "ForeignDHCPServer", Message: "another DHCP server answers on this network: 192.0.2.9"}},
			Holder:             "7b0d9f0e-5c0b-4a56-8a1b-0f8f3c1d2e4a",
			Pool:               &Pool{Total: 100, Active: 2, Free: 97, Declined: 1, Conflicts: 1, ActiveOfTotal: "2/100"},
			Bindings: []Binding{
				{MACAddress: "02:00:5e:10:00:0a", IP: "192.0.2.101", VMNamespace: "clusters-example-hcp-a", VMName: "example-hcp-a-7k2lq-x9fzt"},
				{MACAddress: "02:00:5e:10:00:99", IP: "192.0.2.102"},
			},
			Blocks: []Block{{Start: "192.0.2.110", End: "192.0.2.117"}},
		}},
	}
	var got bytes.Buffer
	e := json.NewEncoder(&got)
	e.SetIndent("", "  ")
	require.NoError(t, e.Encode(o))
	const file = "testdata/status.golden.json"
	if *update {
		require.NoError(t, os.WriteFile(file, got.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "the status has changed; if that is meant, run with -update and tell the operator")
}
