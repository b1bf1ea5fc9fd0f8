package packaging

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// object is a Kubernetes object.
type object map[string]any

// readObjects reads the objects of YAML files, in the order of the files.
func readObjects(patterns ...string) ([]object, error) {
	var all []object
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", pattern, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("there is no file %s", pattern)
		}
		slices.Sort(files)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("reading objects: %w", err)
			}
			objects, err := parseObjects(raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, objects...)
		}
	}
	return all, nil
}

func parseObjects(raw []byte) ([]object, error) {
	var all []object
	for document := range bytes.SplitSeq(append([]byte("\n"), raw...), []byte("\n---")) {
		var o object
		if err := yaml.Unmarshal(document, &o); err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	return all, nil
}

func (o object) kind() string { return text(o["kind"]) }
func (o object) name() string { return text(o.at("metadata", "name")) }

// at is the value at a path of maps, nil if there is none.
func (o object) at(path ...string) any {
	var value any = map[string]any(o)
	for _, key := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

// set puts a value at a path, making the maps on the way.
func (o object) set(value any, path ...string) {
	m := map[string]any(o)
	for _, key := range path[:len(path)-1] {
		next, ok := m[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[key] = next
		}
		m = next
	}
	m[path[len(path)-1]] = value
}

func (o object) list(path ...string) []any {
	list, _ := o.at(path...).([]any)
	return list
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

func ofKind(objects []object, kind string) []object {
	var some []object
	for _, o := range objects {
		if o.kind() == kind {
			some = append(some, o)
		}
	}
	return some
}

// marshal is an object as YAML with sorted keys.
func marshal(o any) ([]byte, error) {
	raw, err := yaml.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return raw, nil
}

// writeFile writes a file of generated YAML below root.
func writeFile(raw []byte, path ...string) error {
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("making the directory of %s: %w", name, err)
	}
	if err := os.WriteFile(name, raw, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// clear removes the generated files of a directory, which keep no other.
func clearDir(dir, suffix string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), suffix) {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
				return fmt.Errorf("removing what is old: %w", err)
			}
		}
	}
	return nil
}
