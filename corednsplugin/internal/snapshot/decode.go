package snapshot

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/densityops/oooi/corednsplugin/internal/agentpb"
)

// maxBytes bounds a snapshot, decompressed: the same 64 MiB that a message of
// the stream may have.
const maxBytes = 64 << 20

// ErrTooLarge is returned for a snapshot of more than 64 MiB.
var ErrTooLarge = errors.New("snapshot larger than 64 MiB")

// Decode reads a snapshot file: protojson, plain or gzipped (told apart by
// gzip's magic bytes, RFC 1952 section 2.3.1). Unknown fields are ignored, as
// the contract's growth is additive.
func Decode(data []byte) (*agentpb.Snapshot, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		plain, err := gunzip(data)
		if err != nil {
			return nil, fmt.Errorf("decompressing snapshot: %w", err)
		}
		data = plain
	}
	if len(data) > maxBytes {
		return nil, ErrTooLarge
	}
	out := new(agentpb.Snapshot)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("decoding snapshot: %w", err)
	}
	return out, nil
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(plain) > maxBytes {
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
