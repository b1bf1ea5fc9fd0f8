package offline

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/render"
)

// YAML is a stream of objects with only the fields that are set, without those
// that are named.
func YAML(objects []render.Object, without ...string) ([]byte, error) {
	var out bytes.Buffer
	for i, o := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("encoding %s/%s: %w", o.GetNamespace(), o.GetName(), err)
		}
		for _, field := range without {
			delete(content, field)
		}
		text, err := yaml.Marshal(bare(content))
		if err != nil {
			return nil, fmt.Errorf("encoding %s/%s: %w", o.GetNamespace(), o.GetName(), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

// bare drops nulls and the empty objects that Go's structs leave. An empty
// podSelector is none of them: it selects all; and SecurityContextConstraints
// have fields that are required and may be null.
func bare(m map[string]any) map[string]any {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			if k != "priority" && k != "defaultAddCapabilities" {
				delete(m, k)
			}
		case map[string]any:
			if bare(v); len(v) == 0 && k != "podSelector" && k != "emptyDir" {
				delete(m, k)
			}
		case []any:
			for _, item := range v {
				if item, ok := item.(map[string]any); ok {
					bare(item)
				}
			}
		}
	}
	return m
}

// Pretty is the snapshot as people read it.
func (s Snapshot) Pretty() ([]byte, error) {
	raw, err := agent.JSON(s.Snapshot)
	if err != nil {
		return nil, fmt.Errorf("encoding the snapshot of %s: %w", s.Child, err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("encoding the snapshot of %s: %w", s.Child, err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
