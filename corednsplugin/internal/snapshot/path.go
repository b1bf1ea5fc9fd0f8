package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// pathAt names what stands at an offset of a JSON document, such as
// "dns.records[2].vlan"; empty is the document itself, or what is no JSON.
func pathAt(data []byte, offset int) string {
	w := walker{tokens: json.NewDecoder(bytes.NewReader(data)), stop: int64(offset)}
	path, _ := w.value("")
	return path
}

// walker reads a document up to an offset.
type walker struct {
	tokens *json.Decoder
	stop   int64
}

// next reads a token; there says that the offset lies before its end, or that
// no more can be read.
func (w walker) next() (t json.Token, there bool) {
	t, err := w.tokens.Token()
	return t, err != nil || w.tokens.InputOffset() > w.stop
}

// value reads one value. Once the offset is reached it gives the path to it.
func (w walker) value(path string) (string, bool) {
	t, there := w.next()
	if there {
		return path, true
	}
	open, _ := t.(json.Delim)
	for i := 0; open != 0 && w.tokens.More(); i++ {
		inner := fmt.Sprintf("%s[%d]", path, i)
		if open == '{' {
			key, at := w.next()
			name, _ := key.(string)
			if inner = path + "." + name; path == "" {
				inner = name
			}
			if at {
				return inner, true
			}
		}
		if found, at := w.value(inner); at {
			return found, true
		}
	}
	if open == 0 {
		return "", false
	}
	_, there = w.next()
	return path, there
}
