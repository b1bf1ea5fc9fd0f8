package config

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

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
)

const (
	// MaxSnapshot bounds an unpacked snapshot: a child resource is at most 1.5
	// MiB (etcd's limit), and protojson of the same data is of the same order.
	MaxSnapshot = 8 << 20
	// maxValues bounds the values in it, of which the smallest takes fifty times
	// its own size in memory: twice as many as a network of 65,536 addresses has
	// in its reservations.
	maxValues = 1 << 18
)

// ErrNoDHCP is returned for a snapshot that was made for another component.
var ErrNoDHCP = errors.New("snapshot holds no DHCP configuration")

// Decode reads a snapshot: protojson, plain or gzipped. A field that it does
// not know is ignored, since a later operator's snapshot may have more.
func Decode(data []byte) (*agentpb.Snapshot, error) {
	return decode(data, protojson.UnmarshalOptions{DiscardUnknown: true})
}

// DecodeStrict also refuses a field that it does not know: in what a person has
// written it is a mistake.
func DecodeStrict(data []byte) (*agentpb.Snapshot, error) {
	return decode(data, protojson.UnmarshalOptions{})
}

func decode(data []byte, how protojson.UnmarshalOptions) (*agentpb.Snapshot, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) { // RFC 1952 section 2.3.1
		zr, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpacking snapshot: %w", err)
		}
		if data, err = io.ReadAll(io.LimitReader(zr, MaxSnapshot+1)); err != nil {
			return nil, fmt.Errorf("unpacking snapshot: %w", err)
		}
	}
	if len(data) > MaxSnapshot {
		return nil, fmt.Errorf("snapshot is larger than %d bytes", MaxSnapshot)
	}
	if bytes.Count(data, []byte(",")) > maxValues {
		return nil, fmt.Errorf("snapshot has more than %d values", maxValues)
	}
	s := &agentpb.Snapshot{}
	if err := how.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("parsing snapshot: %w", located(data, err))
	}
	return s, nil
}

// Encode writes a snapshot as Decode reads it.
func Encode(s *agentpb.Snapshot) ([]byte, error) { return protojson.Marshal(s) }

// version is the snapshot's own, or the content hash where it has none.
func version(s *agentpb.Snapshot) (string, error) {
	if s.GetVersion() != "" {
		return s.GetVersion(), nil
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.GetDhcp())
	if err != nil {
		return "", fmt.Errorf("hashing snapshot: %w", err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
