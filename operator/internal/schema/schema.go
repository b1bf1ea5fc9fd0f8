package schema

import (
	"embed"
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed kinds/*.json
var kinds embed.FS

// Node is what we read of an OpenAPI schema.
type Node struct {
	Type                 string           `json:"type,omitempty"`
	Properties           map[string]*Node `json:"properties,omitempty"`
	AdditionalProperties *Node            `json:"additionalProperties,omitempty"`
	Items                *Node            `json:"items,omitempty"`
	Required             []string         `json:"required,omitempty"`
	Enum                 []string         `json:"enum,omitempty"`
	Minimum              *float64         `json:"minimum,omitempty"`
	Maximum              *float64         `json:"maximum,omitempty"`
	MinLength            *int             `json:"minLength,omitempty"`
	MaxLength            *int             `json:"maxLength,omitempty"`
	MinItems             *int             `json:"minItems,omitempty"`
	MaxItems             *int             `json:"maxItems,omitempty"`
	Pattern              string           `json:"pattern,omitempty"`
	Format               string           `json:"format,omitempty"`
	IntOrString          bool             `json:"x-kubernetes-int-or-string,omitempty"`
	ListType             string           `json:"x-kubernetes-list-type,omitempty"`
	ListMapKeys          []string         `json:"x-kubernetes-list-map-keys,omitempty"`
}

// longest names: a rule of each CRD says so, since other objects' names are made
// from them.
var longest = map[string]int{"Infra": 48, "InfraClusterAttachment": 48, "DHCPServer": 56, "DNSServer": 56, "ProxyServer": 56}

var read = sync.OnceValues(func() (map[string]*Node, error) {
	out := map[string]*Node{}
	for kind := range longest {
		text, err := kinds.ReadFile("kinds/" + kind + ".json")
		if err != nil {
			return nil, fmt.Errorf("reading a schema: %w", err)
		}
		n := &Node{}
		if err := json.Unmarshal(text, n); err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", kind, err)
		}
		out[kind] = n
	}
	return out, nil
})

// Check names what an API server refuses of an object's metadata.name and spec,
// in the order of the places.
func Check(kind, name string, object map[string]any) ([]string, error) {
	all, err := read()
	if err != nil {
		return nil, err
	}
	root, found := all[kind]
	if !found {
		return nil, fmt.Errorf("there is no kind %s", kind)
	}
	j := &judge{}
	if most := longest[kind]; len(name) > most {
		j.fault("metadata.name", name, "must be at most %d characters", most)
	}
	spec, found := object["spec"]
	if !found || spec == nil {
		j.faults = append(j.faults, "spec: must be set")
		return j.faults, nil
	}
	j.value("spec", root, spec)
	return j.faults, nil
}
