package packaging

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// scorecardImage runs scorecard's tests in a cluster. It is of use to tests
// alone, so relatedImages does not name it.
const scorecardImage = "quay.io/operator-framework/scorecard-test:v1.42.3"

// Annotations are the bundle's, in metadata/annotations.yaml and as labels of
// its image.
func (t Table) Annotations() map[string]string {
	const prefix = "operators.operatorframework.io."
	return map[string]string{
		prefix + "bundle.mediatype.v1":       "registry+v1",
		prefix + "bundle.manifests.v1":       "manifests/",
		prefix + "bundle.metadata.v1":        "metadata/",
		prefix + "bundle.package.v1":         PackageName,
		prefix + "bundle.channels.v1":        t.DefaultChannel,
		prefix + "bundle.channel.default.v1": t.DefaultChannel,
		prefix + "test.config.v1":            "tests/scorecard/",
		prefix + "test.mediatype.v1":         "scorecard+v1",
		// The first OpenShift whose API server takes the CRDs (Kubernetes 1.31).
		"com.redhat.openshift.versions": "v4.18",
	}
}

// Bundle makes the files of the bundle, by their paths below bundle/.
func Bundle(root string, table Table) (map[string][]byte, error) {
	out, err := csv(root, table)
	if err != nil {
		return nil, err
	}
	files := map[string]any{
		"manifests/oooi.clusterserviceversion.yaml": out,
		"metadata/annotations.yaml":                 map[string]any{"annotations": table.Annotations()},
		"tests/scorecard/config.yaml":               scorecardConfig(),
	}
	crds, err := readObjects(filepath.Join(root, "manifests/crd/*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, crd := range crds {
		files["manifests/"+crd.name()+".crd.yaml"] = crd
	}
	// The ServiceAccount and its bindings are OLM's to make.
	objects, err := readObjects(filepath.Join(root, "manifests/default/operator.yaml"), filepath.Join(root, "manifests/rbac/components.yaml"))
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		switch o.kind() {
		case "Deployment", "ServiceAccount":
		case "Service", "ClusterRole":
			delete(o["metadata"].(map[string]any), "namespace")
			files["manifests/"+o.name()+"."+strings.ToLower(o.kind())+".yaml"] = o
		default:
			return nil, fmt.Errorf("the bundle has no place for %s %s", o.kind(), o.name())
		}
	}
	return marshalAll(files)
}

func scorecardConfig() map[string]any {
	test := func(suite, name string) map[string]any {
		return map[string]any{
			"entrypoint": []string{"scorecard-test", name}, "image": scorecardImage,
			"labels":  map[string]string{"suite": suite, "test": name + "-test"},
			"storage": map[string]any{"spec": map[string]any{"mountPath": map[string]any{}}},
		}
	}
	tests := []any{test("basic", "basic-check-spec")}
	for _, name := range []string{
		"olm-bundle-validation", "olm-crds-have-validation", "olm-crds-have-resources",
		"olm-spec-descriptors", "olm-status-descriptors",
	} {
		tests = append(tests, test("olm", name))
	}
	return map[string]any{
		"apiVersion": "scorecard.operatorframework.io/v1alpha3", "kind": "Configuration",
		"metadata": map[string]any{"name": "config"},
		"stages":   []any{map[string]any{"parallel": true, "tests": tests}},
		"storage":  map[string]any{"spec": map[string]any{"mountPath": map[string]any{}}},
	}
}

// ImagesComponent is the kustomization that names the images of the table.
func ImagesComponent(table Table) ([]byte, error) {
	operator := table.operator()
	patch, err := marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "oooi-operator", "namespace": "oooi-system"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": operatorName, "env": relatedImages(table)}},
		}}},
	})
	if err != nil {
		return nil, err
	}
	raw, err := marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component",
		"images":  []any{map[string]any{"name": builtinRegistry + "/oooi-operator", "newName": operator.Image, "digest": operator.Digest}},
		"patches": []any{map[string]any{"patch": string(patch)}},
	})
	return append([]byte("# Made by \"make bundle\" from "+TablePath+".\n"), raw...), err
}

// builtinRegistry is what manifests/default names, without tag or digest.
const builtinRegistry = "quay.io/densityops"

func marshalAll(files map[string]any) (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, content := range files {
		raw, err := marshal(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = raw
	}
	return out, nil
}

// WriteBundle writes the bundle below to, replacing the one that is there.
func WriteBundle(root, to string, table Table) error {
	files, err := Bundle(root, table)
	if err != nil {
		return err
	}
	for _, dir := range []string{"manifests", "metadata"} {
		if err := clearDir(filepath.Join(to, dir), ".yaml"); err != nil {
			return err
		}
	}
	for name, raw := range files {
		if err := writeFile(raw, to, name); err != nil {
			return err
		}
	}
	return nil
}

// WriteImagesComponent writes manifests/images below root.
func WriteImagesComponent(root string, table Table) error {
	raw, err := ImagesComponent(table)
	if err != nil {
		return err
	}
	return writeFile(raw, root, "manifests/images/kustomization.yaml")
}

// Stale names the generated files below root that are not what the table and
// the manifests make now.
func Stale(root string, table Table) ([]string, error) {
	files, err := Bundle(root, table)
	if err != nil {
		return nil, err
	}
	wanted := map[string][]byte{}
	for name, raw := range files {
		wanted["bundle/"+name] = raw
	}
	if wanted["manifests/images/kustomization.yaml"], err = ImagesComponent(table); err != nil {
		return nil, err
	}
	var stale []string
	for name, raw := range wanted {
		is, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(is, raw) {
			stale = append(stale, name)
		}
	}
	present, err := filepath.Glob(filepath.Join(root, "bundle/manifests/*"))
	if err != nil {
		return nil, fmt.Errorf("listing the bundle: %w", err)
	}
	for _, file := range present {
		name := "bundle/manifests/" + filepath.Base(file)
		if _, found := wanted[name]; !found {
			stale = append(stale, name+" (is no file of the bundle)")
		}
	}
	return stale, nil
}
