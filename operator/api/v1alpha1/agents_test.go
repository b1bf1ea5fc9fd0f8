package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// TestAgentsStatusIsRead decodes what each agent writes, strictly (behaviour H4).
// The files are copies of the agents' own golden files.
func TestAgentsStatusIsRead(t *testing.T) {
	for _, c := range []struct {
		agent string
		into  any
	}{
		{"dhcpd", &v1alpha1.DHCPServer{}},
		{"corednsplugin", &v1alpha1.DNSServer{}},
		{"xds-manager", &v1alpha1.ProxyServer{}},
	} {
		t.Run(c.agent, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join("testdata", "status", c.agent+".json"))
			require.NoError(t, err)
			decoder := json.NewDecoder(bytes.NewReader(content))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(c.into))
		})
	}
}
