package packaging

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/Masterminds/semver/v3"
)

// CRDUpgradeProblems says what stops a cluster with the CRDs of the older
// bundle from taking those of the newer one: OLM holds an InstallPlan for ever
// when a version that has been stored is no longer there.
func CRDUpgradeProblems(older, newer string) ([]string, error) {
	before, err := crdVersions(older)
	if err != nil {
		return nil, err
	}
	after, err := crdVersions(newer)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		now, found := after[name]
		if !found {
			problems = append(problems, name+" is gone, and with it each resource of the kind")
			continue
		}
		for _, version := range slices.Sorted(maps.Keys(before[name])) {
			was := before[name][version]
			is, found := now[version]
			switch {
			case !found && was.storage:
				problems = append(problems, fmt.Sprintf("%s: version %s has been stored and is gone", name, version))
			case was.served && !is.served:
				problems = append(problems, fmt.Sprintf("%s: version %s was served and is not any more", name, version))
			}
		}
	}
	return problems, nil
}

type crdVersion struct{ served, storage bool }

func crdVersions(bundle string) (map[string]map[string]crdVersion, error) {
	objects, err := readObjects(filepath.Join(bundle, "manifests/*.yaml"))
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]crdVersion{}
	for _, crd := range ofKind(objects, "CustomResourceDefinition") {
		versions := map[string]crdVersion{}
		for _, v := range crd.list("spec", "versions") {
			version := object(v.(map[string]any))
			served, _ := version["served"].(bool)
			storage, _ := version["storage"].(bool)
			versions[text(version["name"])] = crdVersion{served: served, storage: storage}
		}
		all[crd.name()] = versions
	}
	return all, nil
}

// Problems says which versions of a channel cannot reach its head, and what
// else OLM would stumble over. A version reaches another that replaces it or
// whose skipRange holds it.
func (c Channel) Problems() []string {
	var problems []string
	names := map[string]bool{}
	for _, e := range c.Entries {
		if names[e.Name] {
			problems = append(problems, e.Name+" is there twice")
		}
		names[e.Name] = true
	}
	heads := c.Heads()
	if len(heads) != 1 {
		return append(problems, fmt.Sprintf("there are %d heads: %v", len(heads), heads))
	}
	for _, e := range c.Entries {
		if e.Replaces != "" && !names[e.Replaces] {
			problems = append(problems, fmt.Sprintf("%s replaces %s, which is not there", e.Name, e.Replaces))
		}
		if !c.reaches(e.Name, heads[0]) {
			problems = append(problems, fmt.Sprintf("%s never reaches %s", e.Name, heads[0]))
		}
	}
	return problems
}

func (c Channel) reaches(from, head string) bool {
	seen := map[string]bool{}
	for next := []string{from}; len(next) > 0; {
		at := next[0]
		next = next[1:]
		if at == head {
			return true
		}
		for _, e := range c.Entries {
			if !seen[e.Name] && (e.Replaces == at || skips(e.SkipRange, at)) {
				seen[e.Name] = true
				next = append(next, e.Name)
			}
		}
	}
	return false
}

// skips says whether a range of versions holds a bundle.
func skips(skipRange, name string) bool {
	if skipRange == "" {
		return false
	}
	held, err := semver.NewConstraint(skipRange)
	if err != nil {
		return false
	}
	version, err := semver.NewVersion(name[min(len(PackageName)+2, len(name)):])
	return err == nil && held.Check(version)
}
