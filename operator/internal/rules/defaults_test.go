package rules_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// stored is the spec that the API server would store of the valid object of a kind
// with a patch.
func stored(t *testing.T, kind, patch string) map[string]any {
	t.Helper()
	o := read(t, kind).with(t, json.RawMessage(patch))
	require.NoError(t, client.NewDryRunClient(env.Client).Create(t.Context(), o))
	spec, _, err := unstructured.NestedMap(o.Object, "spec")
	require.NoError(t, err)
	return spec
}

// behaviours A1, A2, A4: what the API server fills in, each default by its value.
func TestDefaultsAreTheReferences(t *testing.T) {
	for kind, want := range map[string]string{
		v1alpha1.KindInfra: `{"conflictPolicy":"ExcludeAll","retainDisabled":true,"infraComponents":{
			"dhcp":{"enabled":true,"leaseTime":"1h","unknownClients":"Serve"},
			"dns":{"enabled":true,"ttlSeconds":30},
			"proxy":{"enabled":true,"accessLog":true,"legacyKonnectivityFallback":"Auto"}}}`,
		v1alpha1.KindInfraClusterAttachment: `{"hostedClusterRef":{"namespace":"clusters"},"apiServerService":"kube-apiserver",
			"appsIngress":{"service":{"name":"oooi-ingress","namespace":"openshift-ingress"},"ports":{"http":80,"https":443},
				"metallb":{"operator":{"source":"redhat-operators","sourceNamespace":"openshift-marketplace","channel":"stable","package":"metallb-operator"}}}}`,
		v1alpha1.KindDHCPServer:  `{"leaseConfig":{"leaseTime":"1h"},"unknownClients":"Serve"}`,
		v1alpha1.KindDNSServer:   `{"ttlSeconds":30}`,
		v1alpha1.KindProxyServer: `{"logLevel":"info"}`,
	} {
		t.Run(kind, func(t *testing.T) {
			var expected map[string]any
			require.NoError(t, json.Unmarshal([]byte(want), &expected))
			got := stored(t, kind, `{"spec":{"appsIngress":{"metallb":{}}}}`)
			require.Empty(t, cmp.Diff(expected, only(t, got, expected)), "-reference +API server")
		})
	}
}

// only what want has too, with numbers as JSON has them.
func only(t *testing.T, got, want map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(got)
	require.NoError(t, err)
	var plain map[string]any
	require.NoError(t, json.Unmarshal(text, &plain))
	out := map[string]any{}
	for k, w := range want {
		value, found := plain[k]
		if !found {
			continue
		}
		inner, ok := w.(map[string]any)
		object, is := value.(map[string]any)
		if ok && is {
			value = only(t, object, inner)
		}
		out[k] = value
	}
	return out
}

// behaviour A1, hazard 219: a component is enabled unless somebody has said that
// it is not, however its place is left empty.
func TestAComponentIsEnabledUnlessItIsDisabled(t *testing.T) {
	for name, tc := range map[string]struct {
		components string
		want       any
	}{
		"no infraComponents":        {`null`, true},
		"empty infraComponents":     {`{"dhcp":null,"dns":null,"proxy":null}`, true},
		"empty components":          {`{"dhcp":{},"dns":{},"proxy":{}}`, true},
		"null for enabled":          {`{"dhcp":{"enabled":null},"dns":{"enabled":null},"proxy":{"enabled":null}}`, true},
		"other fields alone":        {`{"dhcp":{"leaseTime":"2h"},"dns":{"ttlSeconds":5},"proxy":{"accessLog":false}}`, true},
		"components that are false": {`{"dhcp":{"enabled":false},"dns":{"enabled":false},"proxy":{"enabled":false}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := read(t, v1alpha1.KindInfra).with(t, json.RawMessage(`{}`))
			require.NoError(t, unstructured.SetNestedField(o.Object, nil, "spec", "infraComponents"))
			if tc.components != "null" {
				var components any
				require.NoError(t, json.Unmarshal([]byte(tc.components), &components))
				require.NoError(t, unstructured.SetNestedField(o.Object, components, "spec", "infraComponents"))
			}
			require.NoError(t, client.NewDryRunClient(env.Client).Create(t.Context(), o))
			for _, component := range []string{"dhcp", "dns", "proxy"} {
				enabled, found, err := unstructured.NestedBool(o.Object, "spec", "infraComponents", component, "enabled")
				require.NoError(t, err)
				require.True(t, found, component)
				require.Equal(t, tc.want, enabled, component)
			}
		})
	}
}
