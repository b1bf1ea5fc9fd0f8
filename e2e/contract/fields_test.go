package contract_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFieldNumbersAreNeverChanged compares the protocol with fields.lock, the
// list of every number that was ever given away. A new field is appended to the
// list; a field that is dropped stays on it, as "reserved" in the .proto.
func TestFieldNumbersAreNeverChanged(t *testing.T) {
	proto := read(t, root(t, "operator", "api", "agent", "v1", "agent.proto"))
	lock := strings.Split(strings.TrimSpace(read(t, root(t, "operator", "api", "agent", "v1", "fields.lock"))), "\n")
	now := fields(proto)
	for _, f := range now {
		require.Contains(t, lock, f.String(), "a new field: append this line to fields.lock")
	}
	for _, locked := range lock {
		if slices.ContainsFunc(now, func(f field) bool { return f.String() == locked }) {
			continue
		}
		gone := lockLine.FindStringSubmatch(locked)
		require.NotNil(t, gone, "fields.lock: %q is no Message.type name = number", locked)
		body := bodyOf(proto, gone[1])
		require.Regexp(t, `reserved [^;]*\b`+gone[3]+`\b`, body, "%s was given away: it is reserved when it is dropped", locked)
		require.NotRegexp(t, `\b`+gone[2]+` = [0-9]+;`, body, "the name of %s is not given away again", locked)
	}
}

// field is a field of a message or a value of an enum.
type field struct{ owner, kind, name, number string }

func (f field) String() string {
	return f.owner + "." + strings.TrimSpace(f.kind+" "+f.name) + " = " + f.number
}

var (
	block     = regexp.MustCompile(`(?ms)^(message|enum) (\w+) \{\n(.*?)^\}`)
	fieldLine = regexp.MustCompile(`(?m)^\s*((?:repeated |optional )?[\w.<>, ]*?)\s?(\w+) = (\d+);`)
	lockLine  = regexp.MustCompile(`^(\w+)\.(?:.* )?(\w+) = (\d+)$`)
)

func fields(proto string) []field {
	var out []field
	for _, b := range block.FindAllStringSubmatch(proto, -1) {
		for _, f := range fieldLine.FindAllStringSubmatch(b[3], -1) {
			out = append(out, field{owner: b[2], kind: f[1], name: f[2], number: f[3]})
		}
	}
	return out
}

func bodyOf(proto, name string) string {
	for _, b := range block.FindAllStringSubmatch(proto, -1) {
		if b[2] == name {
			return b[3]
		}
	}
	return ""
}
