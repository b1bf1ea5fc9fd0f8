package offline_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/internal/offline"
)

// schema is what we read of a CRD's OpenAPI schema.
type schema struct {
	Default    any               `json:"default"`
	Properties map[string]schema `json:"properties"`
}

// apply fills in defaults as the API server does: top down, and only where the
// object around is there.
func (s schema) apply(v any) any {
	if v == nil {
		v = s.Default
	}
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, property := range s.Properties {
		if filled := property.apply(object[name]); filled != nil {
			object[name] = filled
		}
	}
	return object
}

// behaviours A1, A2, A4: offline defaults are the schemas' defaults, field by field.
func TestDefaultsAreTheSchemas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind, plural string
		read         func(*offline.Objects) any
	}{
		{"Infra", "infras", func(o *offline.Objects) any { return o.World.Infras[0].Spec }},
		{"InfraClusterAttachment", "infraclusterattachments", func(o *offline.Objects) any { return o.World.Attachments[0].Spec }},
		{"DHCPServer", "dhcpservers", func(o *offline.Objects) any { return o.World.DHCPServers[0].Spec }},
		{"DNSServer", "dnsservers", func(o *offline.Objects) any { return o.DNSServers[0].Spec }},
		{"ProxyServer", "proxyservers", func(o *offline.Objects) any { return o.World.ProxyServers[0].Spec }},
	}
	for _, tt := range tests {
		for name, spec := range map[string]string{
			"nothing":           `{"hostedClusterRef":{},"leaseConfig":{},"appsIngress":{}}`,
			"empty components":  `{"hostedClusterRef":{},"infraComponents":{"dhcp":{},"dns":null,"proxy":{}},"appsIngress":{"metallb":{"addressPoolName":"x"}},"leaseConfig":{},"networkConfig":{}}`,
			"absent components": `{"hostedClusterRef":{},"infraComponents":null,"appsIngress":{},"leaseConfig":{}}`,
			"values of its own": `{"hostedClusterRef":{"namespace":"x"},"infraComponents":{"dhcp":{"enabled":false,"leaseTime":"2h"},"proxy":{"accessLog":false}},"conflictPolicy":"KeepOldest","ttlSeconds":5,"logLevel":"debug","accessLog":false,"retainDisabled":false,"leaseConfig":{"leaseTime":"2h"},"appsIngress":{"ports":{"http":8080}}}`,
		} {
			t.Run(tt.kind+" with "+name, func(t *testing.T) {
				t.Parallel()
				var raw, want, got any
				require.NoError(t, json.Unmarshal([]byte(spec), &raw))
				encoded, err := json.Marshal(of(raw, specSchema(t, tt.plural)))
				require.NoError(t, err)
				text := `{"apiVersion":"hostedcluster.densityops.com/v1alpha1","kind":"` + tt.kind + `","metadata":{"name":"x"},"spec":` + string(encoded) + `}`
				var o offline.Objects
				require.NoError(t, o.Read("in", []byte(text)))
				o.Default()

				dropNulls(raw)
				want = specSchema(t, tt.plural).apply(raw)
				encoded, err = json.Marshal(tt.read(&o))
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(encoded, &got))
				require.Empty(t, cmp.Diff(prune(want), prune(got)), "-schema +offline")
			})
		}
	}
}

func specSchema(t *testing.T, plural string) schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "crd", "hostedcluster.densityops.com_"+plural+".yaml"))
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(text, &crd))
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// dropNulls: the API server drops a null before it applies a default.
func dropNulls(v any) {
	object, ok := v.(map[string]any)
	if !ok {
		return
	}
	for k, e := range object {
		if e == nil {
			delete(object, k)
			continue
		}
		dropNulls(e)
	}
}

// of drops what the kind's schema does not have.
func of(v any, s schema) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k, e := range object {
		property, found := s.Properties[k]
		if !found && len(s.Properties) > 0 {
			delete(object, k)
			continue
		}
		object[k] = of(e, property)
	}
	return object
}

// prune drops what Go's structs leave empty.
func prune(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k, e := range object {
		e = prune(e)
		if inner, is := e.(map[string]any); is && len(inner) == 0 || e == "" {
			delete(object, k)
			continue
		}
		object[k] = e
	}
	return object
}
