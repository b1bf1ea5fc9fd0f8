package rules_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) { os.Exit(testenv.Run(m, &env, false)) }

// suite of one kind: objects are the valid one with a merge patch.
type suite struct {
	Valid json.RawMessage `json:"valid"`
	Rules []struct {
		Rule    string          `json:"rule"`
		Accept  json.RawMessage `json:"accept"`
		Reject  json.RawMessage `json:"reject"`
		Message string          `json:"message"`
		// ServerOnly says why nobody else has to refuse it.
		ServerOnly string `json:"serverOnly"`
	} `json:"rules"`
}

var kinds = []string{
	v1alpha1.KindInfra, v1alpha1.KindInfraClusterAttachment, v1alpha1.KindDHCPServer, v1alpha1.KindDNSServer, v1alpha1.KindProxyServer,
}

func read(t *testing.T, kind string) suite {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", kind+".yaml"))
	require.NoError(t, err)
	var s suite
	require.NoError(t, yaml.UnmarshalStrict(text, &s))
	return s
}

func (s suite) with(t *testing.T, patch json.RawMessage) *unstructured.Unstructured {
	t.Helper()
	text, err := jsonpatch.MergePatch(s.Valid, patch)
	require.NoError(t, err)
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON(text))
	return u
}

// behaviours A4, A5, hazard 217: each rule accepts one object and rejects one, with
// a message that names the field or the value; and where the API server lets it
// pass, because it lacks the CEL library, the operator refuses it itself.
func TestEachRuleAcceptsAndRejects(t *testing.T) {
	server := client.WithFieldValidation(client.NewDryRunClient(env.Client), metav1.FieldValidationStrict)
	for _, kind := range kinds {
		s := read(t, kind)
		for _, r := range s.Rules {
			t.Run(kind+": "+r.Rule, func(t *testing.T) {
				require.NoError(t, server.Create(t.Context(), s.with(t, r.Accept)))
				rejected := s.with(t, r.Reject)
				require.ErrorContains(t, server.Create(t.Context(), rejected), r.Message)
				if r.ServerOnly == "" {
					require.NotEmpty(t, refusal(t, rejected), "the operator must refuse it without CEL")
					require.Empty(t, refusal(t, s.with(t, r.Accept)))
				}
			})
		}
	}
}

// refusal is what the operator itself says of an object; "" is nothing.
func refusal(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	text, err := u.MarshalJSON()
	require.NoError(t, err)
	decode := func(into any) { require.NoError(t, json.Unmarshal(text, into)) }
	switch u.GetKind() {
	case v1alpha1.KindDHCPServer:
		var o v1alpha1.DHCPServer
		decode(&o)
		_, err = agent.EncodeDHCP(&o)
	case v1alpha1.KindDNSServer:
		var o v1alpha1.DNSServer
		decode(&o)
		_, err = agent.EncodeDNS(&o)
	case v1alpha1.KindProxyServer:
		var o v1alpha1.ProxyServer
		decode(&o)
		_, err = agent.EncodeProxy(&o)
	case v1alpha1.KindInfra:
		var o v1alpha1.Infra
		decode(&o)
		return problems(facts.World{Infras: []v1alpha1.Infra{o}})
	default:
		var o v1alpha1.InfraClusterAttachment
		decode(&o)
		o.Status.Observed.HostedClusterUID = "uid"
		o.Spec.HostedClusterRef.Namespace = "default"
		var infra v1alpha1.Infra
		require.NoError(t, json.Unmarshal(read(t, v1alpha1.KindInfra).Valid, &infra))
		return problems(facts.World{Infras: []v1alpha1.Infra{infra}, Attachments: []v1alpha1.InfraClusterAttachment{o}})
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func problems(w facts.World) string {
	p := plan.For(facts.Inputs(w, &w.Infras[0]))
	var words []string
	for _, problem := range p.Problems {
		words = append(words, problem.Message)
	}
	return strings.Join(words, "; ")
}

var literal = regexp.MustCompile(`'([^']+)'`)

// behaviour A5: no rule of a CRD is without a case.
func TestEveryRuleHasACase(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := read(t, kind)
			said := ""
			for _, r := range s.Rules {
				if err := client.NewDryRunClient(env.Client).Create(t.Context(), s.with(t, r.Reject)); err != nil {
					said += err.Error() + "\n"
				}
			}
			text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "crd", "hostedcluster.densityops.com_"+strings.ToLower(kind)+"s.yaml"))
			require.NoError(t, err)
			var crd apiextensionsv1.CustomResourceDefinition
			require.NoError(t, yaml.Unmarshal(text, &crd))
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			rules := slices.Concat(spec.XValidations, every(spec.Properties["spec"]))
			require.NotEmpty(t, rules)
			for _, v := range rules {
				words := []string{v.Message}
				if v.MessageExpression != "" {
					words = nil
					for _, m := range literal.FindAllStringSubmatch(v.MessageExpression, -1) {
						words = append(words, m[1])
					}
				}
				for _, w := range words {
					require.Contains(t, said, w, "no case breaks the rule %s", cut(v.Rule))
				}
			}
		})
	}
}

func cut(s string) string { return s[:min(len(s), 120)] }

// every rule of a schema and of what it is made of.
func every(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.ValidationRules {
	out := slices.Clone(s.XValidations)
	for _, p := range s.Properties {
		out = append(out, every(p)...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		out = append(out, every(*s.Items.Schema)...)
	}
	return out
}
