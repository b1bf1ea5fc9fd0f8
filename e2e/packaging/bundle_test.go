package packaging_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/e2e/packaging"
)

func table(t *testing.T) packaging.Table {
	t.Helper()
	table, err := packaging.ReadTable(root)
	require.NoError(t, err)
	return table
}

func TestTheBundleIsCurrent(t *testing.T) {
	stale, err := packaging.Stale(root, table(t))
	require.NoError(t, err)
	require.Empty(t, stale, "make bundle")
}

func TestABundleThatIsMadeTwiceIsTheSame(t *testing.T) {
	first, err := packaging.Bundle(root, table(t))
	require.NoError(t, err)
	second, err := packaging.Bundle(root, table(t))
	require.NoError(t, err)
	require.Equal(t, first, second)
}

type csv struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		MinKubeVersion, Version, Description, DisplayName, Maturity string
		Keywords                                                    []string
		Icon                                                        []struct{ Base64data, Mediatype string }
		Maintainers                                                 []struct{ Name, Email string }
		RelatedImages                                               []struct{ Name, Image string }
		InstallModes                                                []struct {
			Type      string
			Supported bool
		}
		WebhookDefinitions        []any
		CustomResourceDefinitions struct {
			Owned []struct {
				Name, Kind, Version, DisplayName, Description string
				Resources                                     []any
				SpecDescriptors, StatusDescriptors            []struct{ Path string }
			}
			Required []any
		}
		Install struct {
			Spec struct {
				Deployments                     []struct{ Name string }
				ClusterPermissions, Permissions []struct {
					ServiceAccountName string
					Rules              []rule
				}
			}
		}
	}
}

type rule struct{ APIGroups, Resources, ResourceNames, Verbs, NonResourceURLs []string }

func readCSV(t *testing.T) (csv, string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "bundle/manifests/oooi.clusterserviceversion.yaml"))
	require.NoError(t, err)
	var out csv
	require.NoError(t, yaml.Unmarshal(raw, &out))
	return out, string(raw)
}

var reference = regexp.MustCompile(`[a-z0-9.-]+\.[a-z]{2,}(?::[0-9]+)?/[a-z0-9._/-]+(?::[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64}`)

// TestEveryImageIsInRelatedImages: hazards 221 to 223, case C51. What is not
// in relatedImages, or there by tag, is not mirrored.
func TestEveryImageIsInRelatedImages(t *testing.T) {
	bundle, words := readCSV(t)
	var related []string
	for _, image := range bundle.Spec.RelatedImages {
		require.NotEmpty(t, image.Name)
		require.Regexp(t, `^[^@]+@sha256:[0-9a-f]{64}$`, image.Image)
		require.NotContains(t, related, image.Image, "oc-mirror stumbles over an image that is there twice")
		related = append(related, image.Image)
	}
	for _, c := range table(t).Components {
		require.Contains(t, related, c.Ref())
	}
	for _, found := range reference.FindAllString(words, -1) {
		require.Contains(t, related, found)
	}
	var deployment struct {
		Spec struct {
			Install struct{ Spec struct{ Deployments any } }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(words), &deployment))
	walk(deployment.Spec.Install.Spec.Deployments, "", func(path string, value any) {
		if s, _ := value.(string); strings.HasSuffix(path, ".image") || strings.Contains(s, "@sha256:") {
			require.Contains(t, related, s, path)
		}
	})
}

// TestTheOperatorKnowsEveryVariable compares the table with the operator's
// source: the variables that it reads, and its built-in images.
func TestTheOperatorKnowsEveryVariable(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "operator/internal/images/*.go"))
	require.NoError(t, err)
	var source strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(raw)
		}
	}
	var inSource, inTable, tags []string
	for _, match := range regexp.MustCompile(`"(RELATED_IMAGE_[A-Z_]+)"`).FindAllStringSubmatch(source.String(), -1) {
		inSource = append(inSource, match[1])
	}
	for _, c := range table(t).Components {
		if c.Env != "" {
			inTable, tags = append(inTable, c.Env), append(tags, c.Tag())
		}
	}
	slices.Sort(inSource)
	slices.Sort(inTable)
	require.Equal(t, inTable, slices.Compact(inSource))
	builtin := regexp.MustCompile(`"([a-z0-9./-]+/[a-z0-9./-]+:v[0-9.]+)"`).FindAllStringSubmatch(source.String(), -1)
	require.Len(t, builtin, len(inTable))
	for _, match := range builtin {
		if upstream, found := strings.CutPrefix(match[1], "docker.io/envoyproxy/envoy:"); found {
			envoy, _ := table(t).Component("envoy")
			require.Equal(t, envoy.Version, upstream, "the image made of the wheel stands in for the same version")
			continue
		}
		require.Contains(t, tags, match[1])
	}
}

// TestNoSchemaDefaultsAnImage: hazard 222, behaviour A8. A default of the
// schema would beat the variable, and so the mirror.
func TestNoSchemaDefaultsAnImage(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "bundle/manifests/*.crd.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 5)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var crd any
		require.NoError(t, yaml.Unmarshal(raw, &crd))
		walk(crd, "", func(path string, value any) {
			if !strings.HasSuffix(path, ".default") {
				return
			}
			require.NotRegexp(t, `(?i)image\.default$`, path)
			if s, isText := value.(string); isText {
				require.NotRegexp(t, `[a-z]/[a-z]`, s, path)
			}
		})
	}
}

// walk shows each value of a document with its path.
func walk(value any, path string, see func(path string, value any)) {
	see(path, value)
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			walk(inner, path+"."+key, see)
		}
	case []any:
		for _, inner := range v {
			walk(inner, path+"[]", see)
		}
	}
}

// TestTheBundleHoldsWhatOLMCanInstall: hazards 227, 233 and 255. Nothing in it
// needs a resource that a cluster may lack, and OLM alone makes the account.
func TestTheBundleHoldsWhatOLMCanInstall(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "bundle/manifests/*"))
	require.NoError(t, err)
	kinds := map[string]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var o struct{ Kind string }
		require.NoError(t, yaml.Unmarshal(raw, &o))
		kinds[o.Kind]++
	}
	// The roles that the operator binds by name.
	require.Positive(t, kinds["ClusterRole"])
	delete(kinds, "ClusterRole")
	require.Equal(t, map[string]int{"ClusterServiceVersion": 1, "CustomResourceDefinition": 5, "Service": 1}, kinds)
	bundle, _ := readCSV(t)
	require.Empty(t, bundle.Spec.WebhookDefinitions)
	require.Empty(t, bundle.Spec.CustomResourceDefinitions.Required)
	for _, mode := range bundle.Spec.InstallModes {
		require.Equal(t, mode.Type == "AllNamespaces", mode.Supported, mode.Type)
	}
}

// TestTheBundleSaysWhatAPersonNeedsToKnow: hazard 231.
func TestTheBundleSaysWhatAPersonNeedsToKnow(t *testing.T) {
	bundle, _ := readCSV(t)
	for _, key := range []string{
		"alm-examples", "capabilities", "categories", "containerImage", "createdAt", "description", "repository", "support",
		"olm.skipRange", "features.operators.openshift.io/disconnected", "operators.openshift.io/infrastructure-features",
	} {
		require.NotEmpty(t, bundle.Metadata.Annotations[key], key)
	}
	require.Equal(t, packaging.CSVName(table(t).Version), bundle.Metadata.Name)
	require.Equal(t, table(t).MinKubeVersion, bundle.Spec.MinKubeVersion)
	require.NotEmpty(t, bundle.Spec.Icon[0].Base64data)
	require.NotEmpty(t, bundle.Spec.Maintainers[0].Email)
	require.NotEmpty(t, bundle.Spec.Keywords)
	var examples []struct{ Kind string }
	require.NoError(t, json.Unmarshal([]byte(bundle.Metadata.Annotations["alm-examples"]), &examples))
	shown := map[string]bool{}
	for _, example := range examples {
		shown[example.Kind] = true
	}
	require.Len(t, bundle.Spec.CustomResourceDefinitions.Owned, 5)
	for _, owned := range bundle.Spec.CustomResourceDefinitions.Owned {
		require.True(t, shown[owned.Kind], "no example of %s", owned.Kind)
		require.NotEmpty(t, owned.Resources, owned.Kind)
		schema := schemaOf(t, owned.Name)
		for part, descriptors := range map[string][]struct{ Path string }{
			"spec": owned.SpecDescriptors, "status": owned.StatusDescriptors,
		} {
			require.NotEmpty(t, descriptors, "%s %s", owned.Kind, part)
			for _, descriptor := range descriptors {
				require.True(t, hasPath(schema, append([]string{part}, strings.Split(descriptor.Path, ".")...)),
					"%s has no %s.%s", owned.Kind, part, descriptor.Path)
			}
		}
	}
}

func schemaOf(t *testing.T, name string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "bundle/manifests", name+".crd.yaml"))
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &crd))
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func hasPath(schema map[string]any, path []string) bool {
	for _, key := range path {
		properties, _ := schema["properties"].(map[string]any)
		next, ok := properties[key].(map[string]any)
		if !ok {
			return false
		}
		schema = next
	}
	return true
}

// TestTheRightsAreLeast: behaviour B12.
func TestTheRightsAreLeast(t *testing.T) {
	bundle, _ := readCSV(t)
	require.Len(t, bundle.Spec.Install.Spec.ClusterPermissions, 1)
	rules := bundle.Spec.Install.Spec.ClusterPermissions[0].Rules
	require.NotEmpty(t, rules)
	for _, permission := range bundle.Spec.Install.Spec.Permissions {
		rules = append(rules, permission.Rules...)
	}
	for _, rule := range rules {
		all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames, rule.NonResourceURLs)
		require.NotContains(t, all, "*", "%+v", rule)
		require.NotContains(t, rule.Verbs, "impersonate", "%+v", rule)
		require.NotContains(t, rule.Verbs, "escalate", "%+v", rule)
		if slices.Contains(rule.Verbs, "bind") {
			require.NotEmpty(t, rule.ResourceNames, "bind is for named roles: %+v", rule)
		}
		if slices.Contains(rule.Resources, "secrets") {
			require.NotContains(t, rule.Verbs, "list", "%+v", rule)
			require.NotContains(t, rule.Verbs, "watch", "%+v", rule)
			require.True(t, len(rule.ResourceNames) > 0 || slices.Equal(rule.Verbs, []string{"create"}), "Secrets are read by name: %+v", rule)
		}
		for _, never := range []string{"pods/exec", "nodes/proxy", "serviceaccounts/token"} {
			require.NotContains(t, rule.Resources, never, "%+v", rule)
		}
	}
}

// TestNothingNamesAHostThatIsNotSaid keeps a stray image out of what is
// installed.
func TestNothingNamesAHostThatIsNotSaid(t *testing.T) {
	image := regexp.MustCompile(`\b([a-z0-9-]+(?:\.[a-z0-9-]+)+(?::[0-9]+)?)/[a-z0-9/._-]+(?:@sha256:|:v[0-9])`)
	for _, dir := range []string{"manifests", "bundle", "catalog"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.Contains(path, "scorecard") {
				return err
			}
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, match := range image.FindAllStringSubmatch(string(raw), -1) {
				require.Equal(t, "quay.io", match[1], "%s: %s", path, match[0])
			}
			return nil
		})
		require.NoError(t, err)
	}
}
