package rules_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/densityops/oooi/operator/internal/app"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) { os.Exit(testenv.Run(m, &env, false)) }

// suite of one kind: objects are the valid one with a merge patch.
type suite struct {
	Valid json.RawMessage `json:"valid"`
	// Full fills up the valid one: it has every field of Required and Patterns.
	Full     json.RawMessage `json:"full"`
	Required []string        `json:"required"`
	// Patterns are a field's values that are taken and refused.
	Patterns map[string][2]string `json:"patterns"`
	Rules    []struct {
		Rule    string          `json:"rule"`
		Accept  json.RawMessage `json:"accept"`
		Reject  json.RawMessage `json:"reject"`
		Message string          `json:"message"`
		// Words of "operator render", where they are not Message.
		Words string `json:"words"`
		// ServerOnly says why the planner does not have to refuse it too.
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
// a message that names the field or the value; where the API server lets it pass,
// because it lacks the CEL library, the operator refuses it itself; and "operator
// render --strict" takes and refuses the same, without a cluster.
func TestEachRuleAcceptsAndRejects(t *testing.T) {
	server := client.WithFieldValidation(client.NewDryRunClient(env.Client), metav1.FieldValidationStrict)
	for _, kind := range kinds {
		s := read(t, kind)
		for _, r := range s.Rules {
			t.Run(kind+": "+r.Rule, func(t *testing.T) {
				require.NoError(t, server.Create(t.Context(), s.with(t, r.Accept)))
				rejected := s.with(t, r.Reject)
				require.ErrorContains(t, server.Create(t.Context(), rejected), r.Message)
				require.Empty(t, rendered(t, s.with(t, r.Accept)), "operator render --strict refuses what the API server takes")
				words := r.Words
				if words == "" && r.ServerOnly == "" {
					words = firstWord(r.Message)
				}
				require.Contains(t, rendered(t, rejected), words, "operator render --strict takes what the API server refuses, or says something else")
				require.NotEmpty(t, rendered(t, rejected))
				if r.ServerOnly == "" {
					require.NotEmpty(t, refusal(t, rejected), "the operator must refuse it without CEL")
					require.Empty(t, refusal(t, s.with(t, r.Accept)))
				}
			})
		}
	}
}

// at is the full object with one field taken out, or set to a value.
func (s suite) at(t *testing.T, path string, value ...string) *unstructured.Unstructured {
	t.Helper()
	operation := map[string]any{"op": "remove", "path": "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(path)}
	for _, v := range value {
		operation["op"], operation["value"] = "replace", v
	}
	text, err := json.Marshal([]any{operation})
	require.NoError(t, err)
	patch, err := jsonpatch.DecodePatch(text)
	require.NoError(t, err)
	full, err := s.with(t, s.Full).MarshalJSON()
	require.NoError(t, err)
	text, err = patch.Apply(full)
	require.NoError(t, err)
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON(text))
	return u
}

// behaviour A5: a field that has to be there is refused without it, and one with a
// pattern takes a value and refuses another, with the field's path, by every API
// server, with the CEL library or without; and so does "operator render --strict".
func TestFieldsThatHaveToBeThereAndPatterns(t *testing.T) {
	server := client.WithFieldValidation(client.NewDryRunClient(env.Client), metav1.FieldValidationStrict)
	for _, kind := range kinds {
		s := read(t, kind)
		full := s.with(t, s.Full)
		require.NoError(t, server.Create(t.Context(), full.DeepCopy()))
		require.Empty(t, rendered(t, full))
		for _, path := range s.Required {
			t.Run(kind+": without "+path, func(t *testing.T) {
				rejected := s.at(t, path)
				require.ErrorContains(t, server.Create(t.Context(), rejected), path+": Required value")
				require.Contains(t, rendered(t, rejected), path+": must be set")
			})
		}
		for path, values := range s.Patterns {
			t.Run(kind+": "+path, func(t *testing.T) {
				require.NoError(t, server.Create(t.Context(), s.at(t, path, values[0])))
				require.Empty(t, rendered(t, s.at(t, path, values[0])))
				rejected := s.at(t, path, values[1])
				require.ErrorContains(t, server.Create(t.Context(), rejected), fmt.Sprintf("%s: Invalid value: %q", path, values[1]))
				require.Contains(t, rendered(t, rejected), fmt.Sprintf("%s: %q must match", path, values[1]))
			})
		}
	}
}

// firstWord of a message is the field or the value that it is about.
func firstWord(message string) string {
	word, _, _ := strings.Cut(message, " ")
	return strings.TrimSuffix(word, ":")
}

// rendered is what "operator render --strict" says against an object, beside
// that the HostedCluster of an attachment was not given. An attachment has its
// Infra beside it.
func rendered(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	text, err := u.MarshalJSON()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "object.json"), text, 0o600))
	if u.GetKind() == v1alpha1.KindInfraClusterAttachment {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "infra.json"), read(t, v1alpha1.KindInfra).Valid, 0o600))
	}
	var stdout, stderr bytes.Buffer
	err = app.Render([]string{"-f", dir, "--strict"}, func(string) (string, bool) { return "", false }, &stdout, &stderr)
	said := strings.Split(stderr.String(), "\n")
	if err != nil && !errors.Is(err, app.ErrProblems) {
		said = append(said, err.Error())
	}
	said = slices.DeleteFunc(said, func(line string) bool {
		return line == "" || strings.HasPrefix(line, "note: ") || strings.Contains(line, ": "+v1alpha1.ReasonHostedClusterNotFound+": ") ||
			strings.Contains(line, ": "+v1alpha1.ReasonControlPlaneNamespaceNotFound+": ")
	})
	return strings.Join(said, "\n")
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

// behaviour A5: as many reservations as the schema takes cost an API server less
// than it allows. Up to 256 it compares with each other; beyond, the planner alone.
func TestManyReservations(t *testing.T) {
	server := client.NewDryRunClient(env.Client)
	for name, tc := range map[string]struct {
		n     int
		twice bool
		taken bool
	}{
		"256":                 {256, false, true},
		"256, one twice":      {256, true, false},
		"the most":            {768, false, true},
		"the most, one twice": {768, true, true},
		"one more than that":  {769, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{v1alpha1.KindInfra, v1alpha1.KindDHCPServer} {
				o := many(t, kind, tc.n, tc.twice)
				err := server.Create(t.Context(), o)
				require.Equal(t, tc.taken, err == nil, "%v", err)
				if tc.twice {
					require.Contains(t, rendered(t, o), "is there twice")
				}
			}
		})
	}
}

// many reservations, the last one of which may be the first one's address.
func many(t *testing.T, kind string, n int, twice bool) *unstructured.Unstructured {
	t.Helper()
	network := `"networkConfig":{"cidr":"192.0.0.0/16"}`
	var list []any
	for i := range n {
		at := i
		if twice && i == n-1 {
			at = 0
		}
		list = append(list, map[string]any{"macAddress": fmt.Sprintf("02:00:00:00:%02x:%02x", i/256, i%256), "ip": fmt.Sprintf("192.0.%d.%d", 10+at/250, 1+at%250)})
	}
	o := read(t, kind).with(t, json.RawMessage(`{"spec":{`+network+`}}`))
	path := []string{"spec", "reservations"}
	if kind == v1alpha1.KindInfra {
		path = []string{"spec", "infraComponents", "dhcp", "reservations"}
	}
	require.NoError(t, unstructured.SetNestedSlice(o.Object, list, path...))
	return o
}

var literal = regexp.MustCompile(`'([^']+)'`)

// behaviour A5: no rule of a CRD is without a case.
func TestEveryRuleHasACase(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := read(t, kind)
			said := answers(t, s)
			spec := schemaOf(t, kind)
			faults := bounded("spec", spec.Properties["spec"])
			for _, name := range spec.Required {
				faults = append(faults, name+": Required value")
			}
			for _, fault := range faults {
				require.Regexp(t, fault, said, "no case breaks what the schema asks of a field")
			}
			rules := slices.Concat(spec.XValidations, every(spec.Properties["spec"]))
			require.NotEmpty(t, rules)
			for _, v := range rules {
				words := []string{v.Message}
				if v.MessageExpression != "" {
					words = nil
					for _, m := range literal.FindAllStringSubmatch(v.MessageExpression, -1) {
						// A word alone is one of several values.
						if strings.Contains(m[1], " ") {
							words = append(words, m[1])
						}
					}
				}
				for _, w := range words {
					require.Contains(t, said, w, "no case breaks the rule %s", cut(v.Rule))
				}
			}
		})
	}
}

// answers are what an API server says against all that a suite has rejected.
func answers(t *testing.T, s suite) string {
	t.Helper()
	var rejected []*unstructured.Unstructured
	for _, r := range s.Rules {
		rejected = append(rejected, s.with(t, r.Reject))
	}
	for _, path := range s.Required {
		rejected = append(rejected, s.at(t, path))
	}
	for path, values := range s.Patterns {
		rejected = append(rejected, s.at(t, path, values[1]))
	}
	var out strings.Builder
	for _, u := range rejected {
		if err := client.NewDryRunClient(env.Client).Create(t.Context(), u); err != nil {
			out.WriteString(err.Error() + "\n")
		}
	}
	return out.String()
}

func schemaOf(t *testing.T, kind string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "crd", "hostedcluster.densityops.com_"+strings.ToLower(kind)+"s.yaml"))
	require.NoError(t, err)
	var c apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.Unmarshal(text, &c))
	return c.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// kubernetes are the types of a field that are not ours.
var kubernetes = regexp.MustCompile(`\.(placement|resources|imagePullSecrets|conditions)\b`)

// bounded is what an API server says, as patterns, of each field that is not there
// though it has to be, of one with an enumeration, a least, a most or a pattern.
func bounded(path string, s apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	if kubernetes.MatchString(path) {
		return nil
	}
	at := strings.ReplaceAll(regexp.QuoteMeta(path), `\[\]`, `\[\d+\]`)
	if len(s.Enum) > 0 {
		out = append(out, at+": Unsupported value")
	}
	if s.Minimum != nil || s.Maximum != nil {
		out = append(out, at+" in body should be (greater|less) than")
	}
	if s.Pattern != "" {
		out = append(out, at+" in body should match")
	}
	for _, name := range s.Required {
		out = append(out, at+`\.`+name+": Required value")
	}
	for name, p := range s.Properties {
		out = append(out, bounded(path+"."+name, p)...)
	}
	for _, more := range s.AllOf {
		out = append(out, bounded(path, more)...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		out = append(out, bounded(path+"[]", *s.Items.Schema)...)
	}
	return out
}

// kubectl explain has words for every field of ours.
func TestEveryFieldIsDescribed(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var look func(path string, s apiextensionsv1.JSONSchemaProps)
			look = func(path string, s apiextensionsv1.JSONSchemaProps) {
				if kubernetes.MatchString(path + ".") {
					return
				}
				for name, p := range s.Properties {
					require.Greater(t, len(p.Description), 8, "%s.%s has no description", path, name)
					look(path+"."+name, p)
				}
				if s.Items != nil && s.Items.Schema != nil {
					look(path+"[]", *s.Items.Schema)
				}
			}
			for _, top := range []string{"spec", "status"} {
				look(top, schemaOf(t, kind).Properties[top])
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
