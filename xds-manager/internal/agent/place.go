package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// position is where protojson says that it met a fault.
var position = regexp.MustCompile(`\(line (\d+):(\d+)\): (.*)`)

// placed makes an error of protojson name the field that it is about: itself it
// names a line and a column, and of some faults not even the field.
func placed(doc []byte, err error) error {
	m := position.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	at := 0
	for ; line > 1; line-- {
		at += bytes.IndexByte(doc[at:], '\n') + 1
	}
	if path := placeOf(doc, at+column-1); path != "" {
		return fmt.Errorf("%s: %s", path, m[3])
	}
	return err
}

// level is one object or list that is open at a place of a document.
type level struct {
	list  bool
	index int
	key   string
	// keyed says that the key was read and its value was not.
	keyed bool
}

type levels []level

// placeOf is the path to what stands at an offset, such as
// "proxy.backends[3].port"; empty is the document itself.
func placeOf(doc []byte, offset int) string {
	d := json.NewDecoder(bytes.NewReader(doc))
	var open levels
	for {
		t, err := d.Token()
		if err != nil {
			return open.String()
		}
		isKey := open.key(t)
		if d.InputOffset() > int64(offset) {
			return open.String()
		}
		if !isKey {
			open.value(t)
		}
	}
}

// key takes a token that is the key of an object.
func (ls levels) key(t json.Token) bool {
	key, text := t.(string)
	if len(ls) == 0 || !text {
		return false
	}
	top := &ls[len(ls)-1]
	if top.list || top.keyed {
		return false
	}
	top.key, top.keyed = key, true
	return true
}

// value takes any other token: a value that begins, ends, or is whole.
func (ls *levels) value(t json.Token) {
	switch t {
	case json.Delim('{'), json.Delim('['):
		*ls = append(*ls, level{list: t == json.Delim('[')})
		return
	case json.Delim('}'), json.Delim(']'):
		*ls = (*ls)[:len(*ls)-1]
	}
	if len(*ls) > 0 {
		top := &(*ls)[len(*ls)-1]
		top.index++
		top.keyed = false
	}
}

// String is the path in words.
func (ls levels) String() string {
	out := ""
	for _, l := range ls {
		switch {
		case l.list:
			out += fmt.Sprintf("[%d]", l.index)
		case out == "":
			out = l.key
		default:
			out += "." + l.key
		}
	}
	return out
}
