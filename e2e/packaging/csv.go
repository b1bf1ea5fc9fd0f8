package packaging

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// PackageName is the operator's name in a catalog.
const PackageName = "oooi"

// CSVName is the name of the bundle of a version.
func CSVName(version string) string { return PackageName + ".v" + version }

// skipRange lets every older version reach this one in one step.
func (t Table) skipRange() string { return ">=0.0.1 <" + t.Version }

// csv makes the ClusterServiceVersion.
func csv(root string, table Table) (object, error) {
	base, err := readObjects(filepath.Join(root, "manifests/olm/base/oooi.clusterserviceversion.yaml"))
	if err != nil {
		return nil, err
	}
	out := base[0]
	description, err := os.ReadFile(filepath.Join(root, "manifests/olm/base/description.md"))
	if err != nil {
		return nil, fmt.Errorf("reading the description: %w", err)
	}
	icon, err := os.ReadFile(filepath.Join(root, "manifests/olm/base/icon.svg"))
	if err != nil {
		return nil, fmt.Errorf("reading the icon: %w", err)
	}
	examples, err := almExamples(root)
	if err != nil {
		return nil, err
	}
	out.set(CSVName(table.Version), "metadata", "name")
	for key, value := range map[string]string{
		"alm-examples": examples, "containerImage": table.operator().Ref(),
		"createdAt": table.Created + "T00:00:00Z", "olm.skipRange": table.skipRange(),
	} {
		out.set(value, "metadata", "annotations", key)
	}
	if gather, found := table.Component(mustGatherName); found {
		// "oc adm must-gather --all-images" looks for it.
		out.set(gather.Ref(), "metadata", "annotations", "operators.openshift.io/must-gather-image")
	}
	out.set(string(description), "spec", "description")
	out.set([]any{map[string]any{
		"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml",
	}}, "spec", "icon")
	out.set(table.Version, "spec", "version")
	out.set(table.MinKubeVersion, "spec", "minKubeVersion")
	related := make([]any, 0, len(table.Components))
	for _, c := range table.Components {
		related = append(related, map[string]any{"name": c.Name, "image": c.Ref()})
	}
	out.set(related, "spec", "relatedImages")
	if err := ownCRDs(root, out); err != nil {
		return nil, err
	}
	return out, install(root, table, out)
}

// almExamples are the samples, as OLM's consoles show them.
func almExamples(root string) (string, error) {
	samples, err := readObjects(filepath.Join(root, "manifests/samples/*.yaml"))
	if err != nil {
		return "", err
	}
	raw, err := json.MarshalIndent(samples, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the examples: %w", err)
	}
	return string(raw), nil
}

// ownCRDs names each CRD in what the base says of its kind.
func ownCRDs(root string, out object) error {
	crds, err := readObjects(filepath.Join(root, "manifests/crd/*.yaml"))
	if err != nil {
		return err
	}
	byKind := map[string]object{}
	for _, crd := range crds {
		byKind[text(crd.at("spec", "names", "kind"))] = crd
	}
	owned := out.list("spec", "customresourcedefinitions", "owned")
	for _, entry := range owned {
		description := object(entry.(map[string]any))
		crd, found := byKind[description.kind()]
		if !found {
			return fmt.Errorf("manifests/olm/base describes kind %s, of which there is no CRD", description.kind())
		}
		delete(byKind, description.kind())
		description["name"] = crd.name()
		description["version"] = "v1alpha1"
	}
	if len(byKind) > 0 {
		return fmt.Errorf("manifests/olm/base describes nothing of %v", slices.Sorted(maps.Keys(byKind)))
	}
	return nil
}

// install is the Deployment and the rights, from manifests/.
func install(root string, table Table, out object) error {
	objects, err := readObjects(filepath.Join(root, "manifests/default/operator.yaml"), filepath.Join(root, "manifests/rbac/role*.yaml"))
	if err != nil {
		return err
	}
	deployments := ofKind(objects, "Deployment")
	if len(deployments) != 1 {
		return fmt.Errorf("manifests/default/operator.yaml has %d Deployments, not one", len(deployments))
	}
	deployment := deployments[0]
	account := text(deployment.at("spec", "template", "spec", "serviceAccountName"))
	if err := setImages(deployment, table); err != nil {
		return err
	}
	// Most clusters with OLM are OpenShift; elsewhere the Subscription says so.
	container := object(deployment.list("spec", "template", "spec", "containers")[0].(map[string]any))
	container["env"] = append(container.list("env"), map[string]any{"name": "OOOI_ENABLE_OPENSHIFT", "value": "true"})
	out.set([]any{map[string]any{
		"name": deployment.name(), "label": deployment.at("metadata", "labels"), "spec": deployment.at("spec"),
	}}, "spec", "install", "spec", "deployments")
	for kind, field := range map[string]string{"ClusterRole": "clusterPermissions", "Role": "permissions"} {
		var rules []any
		for _, role := range ofKind(objects, kind) {
			rules = append(rules, role.list("rules")...)
		}
		if len(rules) > 0 {
			out.set([]any{map[string]any{"serviceAccountName": account, "rules": rules}}, "spec", "install", "spec", field)
		}
	}
	return nil
}

// setImages puts the operator's image and the RELATED_IMAGE_ variables into
// its Deployment.
func setImages(deployment object, table Table) error {
	containers := deployment.list("spec", "template", "spec", "containers")
	for _, c := range containers {
		container := object(c.(map[string]any))
		if text(container["name"]) != operatorName {
			return fmt.Errorf("the Deployment has a container %v that the table does not know", container["name"])
		}
		container["image"] = table.operator().Ref()
		container["env"] = append(container.list("env"), relatedImages(table)...)
	}
	return nil
}

func relatedImages(table Table) []any {
	var env []any
	for _, c := range slices.SortedFunc(slices.Values(table.Components), func(a, b Component) int { return cmp.Compare(a.Env, b.Env) }) {
		if c.Env != "" {
			env = append(env, map[string]any{"name": c.Env, "value": c.Ref()})
		}
	}
	return env
}
