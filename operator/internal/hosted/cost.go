package hosted

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// What decoding costs in memory, in bytes. What a list of objects holds may become the
// largest struct that is decoded, also where it is "null" or a number; what a list
// inside of those holds the largest one there. An object may become a map, and a field
// an entry of one.
const (
	costItem    = 1536
	costElement = 640
	costObject  = 384
	costField   = 128
)

// itemDepth is where the items of a list of objects are: {"items":[.
const itemDepth = 2

var errNoJSON = errors.New("the hosted API server's answer is no JSON")

// asksJSON leaves JSON alone of what a request accepts: what reads the metadata of
// objects would rather have Protocol Buffers.
func asksJSON(r *http.Request) *http.Request {
	var kinds []string
	for kind := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if strings.HasPrefix(strings.TrimSpace(kind), "application/json") {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", strings.Join(kinds, ","))
	return r
}

// legible says whether an answer is one whose cost can be told: our client would decode
// YAML and Protocol Buffers too, whatever it has asked for. It decodes no text. What
// says nothing of itself is read as what was reckoned.
func legible(resp *http.Response) error {
	kind := resp.Header.Get("Content-Type")
	if kind == "" {
		resp.Header.Set("Content-Type", "application/json")
		return nil
	}
	media, _, err := mime.ParseMediaType(kind)
	if err == nil && (media == "application/json" || strings.HasPrefix(media, "text/")) {
		return nil
	}
	return errNoJSON
}

// reckoner tells what decoding an answer costs while it is read.
type reckoner struct {
	text, escaped bool
	// open are the brackets and braces that are not closed yet.
	open []byte
}

// reckon gives the cost of what comes next.
func (r *reckoner) reckon(p []byte) (sum int64) {
	for _, b := range p {
		switch {
		case r.text:
			r.inText(b)
		case b == '"':
			r.text = true
		default:
			sum += r.mark(b)
		}
	}
	return sum
}

func (r *reckoner) inText(b byte) {
	r.text = r.escaped || b != '"'
	r.escaped = !r.escaped && b == '\\'
}

// mark outside of a text. The first element of a list costs with its bracket, the others
// with the comma before them.
func (r *reckoner) mark(b byte) int64 {
	switch b {
	case '[':
		r.open = append(r.open, b)
		return r.element()
	case '{':
		r.open = append(r.open, b)
		return costObject
	case ']', '}':
		r.open = slices.Delete(r.open, max(0, len(r.open)-1), len(r.open))
	case ',':
		if len(r.open) > 0 && r.open[len(r.open)-1] == '[' {
			return r.element()
		}
		return costField
	}
	return 0
}

func (r *reckoner) element() int64 {
	if len(r.open) <= itemDepth {
		return costItem
	}
	return costElement
}
