package rules_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

func crd(t *testing.T, kind string) apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "crd", "hostedcluster.densityops.com_"+strings.ToLower(kind)+"s.yaml"))
	require.NoError(t, err)
	var out apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.Unmarshal(text, &out))
	return out
}

// behaviour A1: what people type and what they see of each kind.
func TestNamesAndColumns(t *testing.T) {
	for kind, want := range map[string]struct{ short, columns string }{
		v1alpha1.KindInfra:                  {"infra", "Ready Reason CIDR Attachments Age"},
		v1alpha1.KindInfraClusterAttachment: {"ica infraattachment", "Infra HostedCluster Domain Ready Reason Age"},
		v1alpha1.KindDHCPServer:             {"dhcpserver", "Ready ServerIP Leases Free Age"},
		v1alpha1.KindDNSServer:              {"dns", "Ready ServerIP Names Age"},
		v1alpha1.KindProxyServer:            {"proxy proxies", "Ready ServerIP Backends Accepted_version Age"},
	} {
		t.Run(kind, func(t *testing.T) {
			c := crd(t, kind)
			require.Equal(t, "hostedcluster.densityops.com", c.Spec.Group)
			require.Equal(t, apiextensionsv1.NamespaceScoped, c.Spec.Scope)
			require.Equal(t, want.short, strings.Join(c.Spec.Names.ShortNames, " "))
			require.Len(t, c.Spec.Versions, 1)
			v := c.Spec.Versions[0]
			require.Equal(t, "v1alpha1", v.Name)
			require.NotNil(t, v.Subresources.Status)
			// There may be more, but these in this order.
			columns := strings.Fields(want.columns)
			for _, column := range v.AdditionalPrinterColumns {
				name := strings.ReplaceAll(column.Name, " ", "_")
				if column.Priority == 0 && len(columns) > 0 && name == columns[0] {
					columns = columns[1:]
				}
			}
			require.Empty(t, columns, "not shown, or not in this order")
		})
	}
}

// long is from how many entries on a list would double in managedFields.
const long = 64

// behaviour A4: every list says how its entries are told apart and how many it
// takes, every string how long it may be; and a list of a child that may be long is
// one value.
func TestListsAreBoundedAndLongOnesAtomic(t *testing.T) {
	for _, kind := range kinds {
		child := kind != v1alpha1.KindInfra && kind != v1alpha1.KindInfraClusterAttachment
		t.Run(kind, func(t *testing.T) {
			var look func(path string, s apiextensionsv1.JSONSchemaProps)
			look = func(path string, s apiextensionsv1.JSONSchemaProps) {
				if s.Type == "array" && !borrowed(path) {
					require.NotNil(t, s.XListType, "%s has no listType", path)
					require.NotNil(t, s.MaxItems, "%s has no maxItems", path)
					require.True(t, !child || *s.MaxItems < long || *s.XListType == "atomic", "%s takes %d entries and is a %s", path, *s.MaxItems, *s.XListType)
				}
				if s.Type == "string" && len(s.Enum) == 0 && s.Format == "" && !borrowed(path) {
					require.True(t, limited(s), "%s has no maxLength", path)
				}
				for name, p := range s.Properties {
					look(path+"."+name, p)
				}
				if s.Items != nil && s.Items.Schema != nil {
					look(path+"[]", *s.Items.Schema)
				}
			}
			schema := crd(t, kind).Spec.Versions[0].Schema.OpenAPIV3Schema
			look("spec", schema.Properties["spec"])
			look("status", schema.Properties["status"])
		})
	}
}

// limited also by what a type and a field both say.
func limited(s apiextensionsv1.JSONSchemaProps) bool {
	return s.MaxLength != nil || slices.ContainsFunc(s.AllOf, func(a apiextensionsv1.JSONSchemaProps) bool { return a.MaxLength != nil })
}

// borrowed are Kubernetes' own types, which have no limits of their own.
func borrowed(path string) bool {
	for _, part := range []string{".placement.", ".resources.", ".imagePullSecrets", ".conditions"} {
		if strings.Contains(path+".", part) {
			return true
		}
	}
	return false
}
