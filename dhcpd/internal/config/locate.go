package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// located adds the path of the member where protojson has stopped, which it
// itself gives as a line and column, if that.
func located(data []byte, err error) error {
	m := position.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	line, _ := strconv.Atoi(m[1]) // digits, by the expression
	column, _ := strconv.Atoi(m[2])
	if path := pathAt(data, offsetOf(data, line, column)); path != "" {
		return fmt.Errorf("%s: %w", path, err)
	}
	return err
}

var position = regexp.MustCompile(`\(line (\d+):(\d+)\)`)

// offsetOf is the offset of a line and column, both from 1.
func offsetOf(data []byte, line, column int) int64 {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			break
		}
		at += n + 1
	}
	return int64(at + column - 1)
}

// pathAt is the path of the value that begins at an offset, or holds it, like
// dhcp.range.start or dhcp.relays[1].
func pathAt(data []byte, offset int64) string {
	d := json.NewDecoder(bytes.NewReader(data))
	var w walk
	for {
		t, err := d.Token()
		if err != nil {
			return w.String()
		}
		if d.InputOffset() > offset {
			w.enter(t)
			return w.String()
		}
		w.take(t)
	}
}

// walk is where a reader of JSON stands: the members and elements that it is
// in, the outermost first.
type walk []step

type step struct {
	name  string // of the member, in an object
	index int    // of the element, in an array
	array bool
	value bool // its value comes next, in an object
}

// enter notes which member or element a token belongs to.
func (w walk) enter(t json.Token) {
	if len(w) == 0 {
		return
	}
	if s := &w[len(w)-1]; !s.array && !s.value {
		s.name, _ = t.(string) // a member's name is always one
	}
}

// take goes past a token.
func (w *walk) take(t json.Token) {
	w.enter(t)
	switch t {
	case json.Delim('{'):
		*w = append(*w, step{})
		return
	case json.Delim('['):
		*w = append(*w, step{array: true})
		return
	case json.Delim('}'), json.Delim(']'):
		*w = (*w)[:len(*w)-1]
	}
	if len(*w) == 0 {
		return
	}
	switch s := &(*w)[len(*w)-1]; {
	case s.array:
		s.index++
	default:
		s.value = !s.value
	}
}

func (w walk) String() string {
	var b strings.Builder
	for _, s := range w {
		switch {
		case s.array:
			fmt.Fprintf(&b, "[%d]", s.index)
		case b.Len() > 0:
			b.WriteString("." + s.name)
		default:
			b.WriteString(s.name)
		}
	}
	return b.String()
}
