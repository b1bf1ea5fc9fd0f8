package schema

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// judge collects faults.
type judge struct {
	faults []string
}

// longValue is how much of a value is shown.
const longValue = 80

func (j *judge) fault(path string, value any, format string, args ...any) {
	text := fmt.Sprintf("%#v", value)
	switch v := value.(type) {
	case map[string]any:
		text = "an object"
	case []any:
		text = "a list"
	case string:
		text = fmt.Sprintf("%q", v)
	case int64, float64, bool:
		text = fmt.Sprint(v)
	}
	if len(text) > longValue {
		text = text[:longValue] + "..."
	}
	j.faults = append(j.faults, fmt.Sprintf("%s: %s %s", path, text, fmt.Sprintf(format, args...)))
}

// value judges one value. A null is an absent field: the API server drops it.
func (j *judge) value(path string, n *Node, value any) {
	if value == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		if n.Type != "object" {
			j.fault(path, value, "must be %s", n.kind())
			return
		}
		j.object(path, n, v)
	case []any:
		if n.Type != "array" {
			j.fault(path, value, "must be %s", n.kind())
			return
		}
		j.list(path, n, v)
	case string:
		if n.Type != "string" && !n.IntOrString {
			j.fault(path, value, "must be %s", n.kind())
			return
		}
		j.text(path, n, v)
	case bool:
		if n.Type != "boolean" {
			j.fault(path, value, "must be %s", n.kind())
		}
	default:
		j.number(path, n, value)
	}
}

// kind is the schema's type in words.
func (n *Node) kind() string {
	switch {
	case n.IntOrString:
		return "a number or a string"
	case n.Type == "array":
		return "a list"
	case n.Type == "object":
		return "an object"
	case n.Type == "integer":
		return "an integer"
	}
	return "a " + n.Type
}

func (j *judge) object(path string, n *Node, object map[string]any) {
	for _, name := range n.Required {
		if object[name] == nil {
			j.faults = append(j.faults, path+"."+name+": must be set")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if inner, found := n.Properties[name]; found {
			j.value(path+"."+name, inner, object[name])
		} else if n.AdditionalProperties != nil {
			j.value(path+"["+name+"]", n.AdditionalProperties, object[name])
		}
	}
}

func (j *judge) list(path string, n *Node, list []any) {
	if n.MaxItems != nil && len(list) > *n.MaxItems {
		j.fault(path, list, "of %d items must have at most %d", len(list), *n.MaxItems)
	}
	if n.MinItems != nil && len(list) < *n.MinItems {
		j.fault(path, list, "of %d items must have at least %d", len(list), *n.MinItems)
	}
	seen := map[string]bool{}
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		j.value(at, n.Items, item)
		if key, unique := n.key(item); unique {
			if seen[key] {
				j.faults = append(j.faults, fmt.Sprintf("%s: %s is there twice", at, key))
			}
			seen[key] = true
		}
	}
}

// key of an item in a list that may hold it once.
func (n *Node) key(item any) (string, bool) {
	switch n.ListType {
	case "set":
		return fmt.Sprint(item), true
	case "map":
		object, ok := item.(map[string]any)
		if !ok {
			return "", false
		}
		var parts []string
		for _, k := range n.ListMapKeys {
			parts = append(parts, fmt.Sprintf("%s %v", k, object[k]))
		}
		return strings.Join(parts, ", "), true
	}
	return "", false
}

func (j *judge) text(path string, n *Node, s string) {
	if n.MaxLength != nil && utf8.RuneCountInString(s) > *n.MaxLength {
		j.fault(path, s, "must be at most %d characters", *n.MaxLength)
	}
	if n.MinLength != nil && utf8.RuneCountInString(s) < *n.MinLength {
		j.fault(path, s, "must be at least %d characters", *n.MinLength)
	}
	if len(n.Enum) > 0 && !slices.Contains(n.Enum, s) {
		j.fault(path, s, "must be one of %s", strings.Join(n.Enum, ", "))
	}
	if n.Pattern != "" && !regexp.MustCompile(n.Pattern).MatchString(s) {
		j.fault(path, s, "must match %s", n.Pattern)
	}
	if n.Format == "cidr" {
		if _, err := netip.ParsePrefix(s); err != nil {
			j.fault(path, s, "must be a network such as 192.0.2.0/24")
		}
	}
}

func (j *judge) number(path string, n *Node, value any) {
	f, ok := n.numeric(value)
	if !ok {
		j.fault(path, value, "must be %s", n.kind())
		return
	}
	if n.Minimum != nil && f < *n.Minimum {
		j.fault(path, value, "must be at least %v", *n.Minimum)
	}
	if n.Maximum != nil && f > *n.Maximum {
		j.fault(path, value, "must be at most %v", *n.Maximum)
	}
}

// numeric is a number that the schema has a place for; a fraction is no integer.
func (n *Node) numeric(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), n.Type == "integer" || n.Type == "number" || n.IntOrString
	case float64:
		return v, n.Type == "number"
	}
	return 0, false
}
