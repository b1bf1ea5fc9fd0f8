package snapshot

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/densityops/oooi/corednsplugin/internal/agentpb"
)

// MaxBytes bounds a snapshot, decompressed: the same 64 MiB that a message of
// the stream may have.
const MaxBytes = 64 << 20

// ErrTooLarge is returned for a snapshot of more than 64 MiB.
var ErrTooLarge = errors.New("snapshot larger than 64 MiB")

// Decode reads a snapshot file: protojson, plain or gzipped (told apart by
// gzip's magic bytes, RFC 1952 section 2.3.1). Unknown fields are ignored, as
// the contract's growth is additive.
func Decode(data []byte) (*agentpb.Snapshot, error) {
	return decode(data, protojson.UnmarshalOptions{DiscardUnknown: true})
}

// DecodeStrict is Decode for a file that somebody wrote by hand: an unknown field
// is a mistake there.
func DecodeStrict(data []byte) (*agentpb.Snapshot, error) {
	return decode(data, protojson.UnmarshalOptions{})
}

func decode(data []byte, opts protojson.UnmarshalOptions) (*agentpb.Snapshot, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		plain, err := gunzip(data)
		if err != nil {
			return nil, fmt.Errorf("decompressing snapshot: %w", err)
		}
		data = plain
	}
	if len(data) > MaxBytes {
		return nil, ErrTooLarge
	}
	out := new(agentpb.Snapshot)
	if err := opts.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("decoding snapshot: %s", explain(err.Error(), data))
	}
	return out, nil
}

var (
	position = regexp.MustCompile(`\(line (\d+):(\d+)\)`)
	key      = regexp.MustCompile(`"[^"]*"\s*:\s*$`)
)

// excerpt is how much of a file an error shows at most, before and after.
const excerpt = 80

// explain adds the path to where the parser stopped, and what stands there, from
// its key on: about a value of the wrong kind the parser does not say whose it is. The parser also
// varies its spaces, so that nobody compares its words; a problem's message has
// to stay the same.
func explain(said string, data []byte) string {
	said = strings.TrimPrefix(strings.ReplaceAll(said, "\u00a0", " "), "proto: ")
	at := position.FindStringSubmatch(said)
	if at == nil {
		return said
	}
	line, _ := strconv.Atoi(at[1]) // digits, as the pattern says
	column, _ := strconv.Atoi(at[2])
	stop := offset(data, line, column)
	before := key.Find(data[max(0, stop-excerpt):stop])
	after, _, _ := bytes.Cut(data[stop:min(len(data), stop+excerpt)], []byte("\n"))
	if path := pathAt(data, stop); path != "" {
		said = path + ": " + said
	}
	return said + ", at: " + clip(string(before)+string(after))
}

// offset is the index of a position; the parser counts columns in characters.
func offset(data []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		at += bytes.IndexByte(data[at:], '\n') + 1
	}
	for ; column > 1 && at < len(data); column-- {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	return at
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(plain) > MaxBytes {
		return nil, ErrTooLarge
	}
	return plain, r.Close()
}

// Encode is Decode's counterpart: gzipped protojson.
func Encode(s *agentpb.Snapshot) ([]byte, error) {
	plain, err := protojson.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding snapshot: %w", err)
	}
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("compressing snapshot: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing snapshot: %w", err)
	}
	return buf.Bytes(), nil
}

// version is the snapshot's own, or the digest of its config where a file
// written by hand names none.
func version(s *agentpb.Snapshot) (string, error) {
	if s.GetVersion() != "" {
		return s.GetVersion(), nil
	}
	raw, err := (proto.MarshalOptions{Deterministic: true}).Marshal(s.GetDns())
	if err != nil {
		return "", fmt.Errorf("encoding config: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
