package schema_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/internal/golden"
	"github.com/densityops/oooi/operator/internal/schema"
)

// behaviour A5: what is judged by is what the CRDs say.
func TestTheSchemasAreThoseOfTheCRDs(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Infra", "InfraClusterAttachment", "DHCPServer", "DNSServer", "ProxyServer"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "crd", "hostedcluster.densityops.com_"+strings.ToLower(kind)+"s.yaml"))
		require.NoError(t, err)
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema schema.Node `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		require.NoError(t, yaml.Unmarshal(text, &crd))
		require.Len(t, crd.Spec.Versions, 1)
		compact, err := json.Marshal(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
		require.NoError(t, err)
		golden.File(t, filepath.Join("kinds", kind+".json"), append(compact, '\n'))
	}
}

// behaviour A5: every fault names the place and the value.
func TestFaultsNameThePlaceAndTheValue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ kind, spec, want string }{
		"a string for a boolean": {"Infra", `infraComponents: {dhcp: {enabled: "no"}}`, `spec.infraComponents.dhcp.enabled: "no" must be a boolean`},
		"a string for a number":  {"ProxyServer", `backends: [{port: "443"}]`, `spec.backends[0].port: "443" must be an integer`},
		"a number for a string":  {"Infra", `networkConfig: {dnsServers: [53]}`, `spec.networkConfig.dnsServers[0]: 53 must be a string`},
		"a list for an object":   {"Infra", `networkConfig: [a]`, `spec.networkConfig: a list must be an object`},
		"an object for a list":   {"DNSServer", `records: {a: b}`, `spec.records: an object must be a list`},
		"a fraction":             {"DNSServer", `ttlSeconds: 1.5`, `spec.ttlSeconds: 1.5 must be an integer`},
		"a word that is none":    {"Infra", `conflictPolicy: Foo`, `spec.conflictPolicy: "Foo" must be one of ExcludeAll, KeepOldest`},
		"too much":               {"Infra", `infraComponents: {dns: {ttlSeconds: 99999}}`, `spec.infraComponents.dns.ttlSeconds: 99999 must be at most 30`},
		"too little":             {"DHCPServer", `networkConfig: {mtu: 5}`, `spec.networkConfig.mtu: 5 must be at least 576`},
		"a bad form":             {"DNSServer", `records: [{name: A.example.com}]`, `spec.records[0].name: "A.example.com" must match `},
		"too long":               {"DNSServer", `image: ` + strings.Repeat("x", 513), `x... must be at most 512 characters`},
		"too short":              {"DHCPServer", `options: [{code: 67, value: ""}]`, `spec.options[0].value: "" must be at least 1 characters`},
		"too many":               {"DHCPServer", `relays: [` + strings.Repeat("192.0.2.9, ", 65) + `]`, `spec.relays: a list of 65 items must have at most 64`},
		"a set with one twice":   {"Infra", `infraComponents: {dns: {additionalSourceCIDRs: [192.0.2.0/24, 192.0.2.0/24]}}`, `spec.infraComponents.dns.additionalSourceCIDRs[1]: 192.0.2.0/24 is there twice`},
		"a key twice":            {"DNSServer", `imagePullSecrets: [{name: a}, {name: a}]`, `spec.imagePullSecrets[1]: name a is there twice`},
		"a network that is none": {"ProxyServer", `backends: [{sourcePrefixRanges: [x]}]`, `spec.backends[0].sourcePrefixRanges[0]: "x" must be a network`},
		"a label of wrong type":  {"InfraClusterAttachment", `externalService: {labels: {a: 1}}`, `spec.externalService.labels[a]: 1 must be a string`},
		"what is required":       {"Infra", `networkConfig: {}`, `spec.networkConfig.cidr: must be set`},
		"a quantity of two ways": {"Infra", `infraComponents: {dhcp: {resources: {limits: {cpu: 1, memory: [1]}}}}`, `spec.infraComponents.dhcp.resources.limits[memory]: a list must be a number or a string`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, err := schema.Check(tc.kind, "x", map[string]any{"spec": decoded(t, tc.spec)})
			require.NoError(t, err)
			require.Contains(t, strings.Join(faults, "\n"), tc.want)
		})
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &out))
	return whole(out).(map[string]any)
}

// whole turns JSON's numbers into whole ones where they are.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = whole(e)
		}
	case []any:
		for i, e := range v {
			v[i] = whole(e)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

func TestWhatIsNoObjectOfOurs(t *testing.T) {
	t.Parallel()
	_, err := schema.Check("Infraa", "x", nil)
	require.ErrorContains(t, err, "no kind Infraa")
	faults, err := schema.Check("Infra", strings.Repeat("x", 49), map[string]any{})
	require.NoError(t, err)
	require.Len(t, faults, 2)
	require.Contains(t, faults[0], "metadata.name")
	require.Equal(t, "spec: must be set", faults[1])
	faults, err = schema.Check("DHCPServer", "x", map[string]any{"spec": map[string]any{"networkConfig": nil, "leaseConfig": nil, "image": nil}})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"spec.networkConfig: must be set", "spec.leaseConfig: must be set"}, faults)
}
