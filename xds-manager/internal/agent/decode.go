package agent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/densityops/oooi/xds-manager/internal/agentpb"
	"github.com/densityops/oooi/xds-manager/internal/routes"
)

// maxSnapshot bounds a snapshot, unpacked: far above any real one, far below
// what would exhaust the pod.
const maxSnapshot = 64 << 20

// errTooLarge says that a snapshot, as it is or unpacked, is above the bound.
var errTooLarge = fmt.Errorf("snapshot has more than %d bytes", maxSnapshot)

// Contract is what this agent speaks.
const Contract = "agent.v1"

// Snapshot is a parsed snapshot.
type Snapshot struct {
	Version    string
	Namespace  string
	Name       string
	UID        string
	Generation int64
	// Table is as the snapshot says, not yet validated.
	Table routes.Table
	// Problems are of entries that could not even be parsed.
	Problems []routes.Problem

	raw *agentpb.Snapshot
}

// Read reads a snapshot's file as a whole. It takes regular files alone, asks
// the open file rather than its path what it is, and neither waits nor reads
// more than a snapshot can have, whatever is put in its place or appended
// meanwhile.
func Read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("reading snapshot: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading snapshot: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("reading snapshot: %s is no regular file (%s)", path, info.Mode().Type())
	}
	b, err := readBounded(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("reading snapshot %s: %w", path, err)
	}
	return b, nil
}

// readBounded reads all of r, of which size is only what it had at first.
func readBounded(r io.Reader, size int64) ([]byte, error) {
	if size > maxSnapshot {
		return nil, errTooLarge
	}
	b, err := io.ReadAll(io.LimitReader(r, maxSnapshot+1))
	if err == nil && len(b) > maxSnapshot {
		err = errTooLarge
	}
	return b, err
}

// Decode reads a snapshot: protojson, plain or gzipped. Fields that the contract
// does not have are ignored: a later operator's snapshot may have more.
func Decode(b []byte) (Snapshot, error) {
	return decode(b, protojson.UnmarshalOptions{DiscardUnknown: true})
}

// DecodeStrict refuses them: a person's file has them by mistake.
func DecodeStrict(b []byte) (Snapshot, error) { return decode(b, protojson.UnmarshalOptions{}) }

func decode(b []byte, how protojson.UnmarshalOptions) (Snapshot, error) {
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		plain, err := gunzip(b)
		if err != nil {
			return Snapshot{}, err
		}
		b = plain
	}
	if len(b) > maxSnapshot {
		return Snapshot{}, errTooLarge
	}
	m := &agentpb.Snapshot{}
	if err := how.Unmarshal(b, m); err != nil {
		return Snapshot{}, fmt.Errorf("parsing snapshot: %w", placed(b, err))
	}
	return parse(m)
}

func gunzip(b []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("unpacking snapshot: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(zr, maxSnapshot+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking snapshot: %w", err)
	}
	return plain, nil
}

// encode is Decode's opposite, gzipped.
func encode(s Snapshot) ([]byte, error) {
	b, err := protojson.Marshal(s.raw)
	if err != nil {
		return nil, fmt.Errorf("encoding snapshot: %w", err)
	}
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	if _, err := zw.Write(b); err != nil {
		return nil, fmt.Errorf("packing snapshot: %w", err)
	}
	if err := zw.Close(); err != nil {
		return nil, fmt.Errorf("packing snapshot: %w", err)
	}
	return out.Bytes(), nil
}

// errNoProxy says that a snapshot is another component's.
var errNoProxy = errors.New("snapshot holds no proxy configuration")

func parse(m *agentpb.Snapshot) (Snapshot, error) {
	c := m.GetProxy()
	if c == nil {
		return Snapshot{}, errNoProxy
	}
	s := Snapshot{
		Version: m.GetVersion(), Namespace: m.GetChild().GetNamespace(), Name: m.GetChild().GetName(),
		UID: m.GetChild().GetUid(), Generation: m.GetChild().GetGeneration(), raw: m,
	}
	if s.Version == "" {
		v, err := versionOf(c)
		if err != nil {
			return Snapshot{}, err
		}
		s.Version = v
	}
	var err error
	s.Table, s.Problems, err = table(c)
	return s, err
}

func versionOf(c *agentpb.ProxyConfig) (string, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encoding configuration: %w", err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// table parses a configuration. What every listener needs is an error; what
// concerns one backend is that backend's problem.
func table(c *agentpb.ProxyConfig) (routes.Table, []routes.Problem, error) {
	t, err := network(c)
	if err != nil {
		return routes.Table{}, nil, err
	}
	var problems []routes.Problem
	for _, b := range c.GetBackends() {
		parsed, err := backend(b)
		if err != nil {
			problems = append(problems, routes.Problem{Object: b.GetName(), Reason: routes.ReasonInvalidBackend, Message: fmt.Sprintf("backend %q: %v", b.GetName(), err)})
			continue
		}
		t.Backends = append(t.Backends, parsed)
	}
	for _, e := range c.GetExternalListeners() {
		port, err := portOf(e.GetPort())
		if err != nil {
			problems = append(problems, routes.Problem{Object: e.GetName(), Reason: routes.ReasonInvalidListener, Message: fmt.Sprintf("external listener %q: %v", e.GetName(), err)})
			continue
		}
		t.External = append(t.External, routes.External{Name: e.GetName(), Port: port, Backends: e.GetBackends()})
	}
	return t, problems, nil
}

// network parses what all listeners share.
func network(c *agentpb.ProxyConfig) (routes.Table, error) {
	t := routes.Table{AccessLog: c.GetAccessLog(), LogLevel: c.GetLogLevel(), Upstreams: c.GetUpstreams()}
	var err error
	if t.ServerIP, err = netip.ParseAddr(c.GetServerIp()); err != nil || !t.ServerIP.Is4() {
		return routes.Table{}, fmt.Errorf("serverIp %q is no IPv4 address", c.GetServerIp())
	}
	if t.CIDR, err = netip.ParsePrefix(c.GetCidr()); err != nil || !t.CIDR.Addr().Is4() || t.CIDR != t.CIDR.Masked() {
		return routes.Table{}, fmt.Errorf("cidr %q is no IPv4 network", c.GetCidr())
	}
	if !t.CIDR.Contains(t.ServerIP) {
		return routes.Table{}, fmt.Errorf("serverIp %s lies outside %s", t.ServerIP, t.CIDR)
	}
	if !knownLogLevel(t.LogLevel) {
		return routes.Table{}, fmt.Errorf("logLevel %q is none of Envoy's", t.LogLevel)
	}
	for _, r := range c.GetReservedIps() {
		a, err := netip.ParseAddr(r)
		if err != nil {
			return routes.Table{}, fmt.Errorf("reserved address %q is no address", r)
		}
		t.Reserved = append(t.Reserved, a)
	}
	return t, nil
}

func knownLogLevel(l string) bool {
	return strings.Contains(" trace debug info warning error critical off ", " "+l+" ") || l == ""
}

func backend(b *agentpb.ProxyBackend) (routes.Backend, error) {
	out := routes.Backend{Name: b.GetName(), Hostnames: b.GetHostnames(), Protocol: protocolOf(b.GetProtocol()), PodSide: b.GetPodSide()}
	var err error
	if out.Port, err = portOf(b.GetPort()); err != nil {
		return routes.Backend{}, err
	}
	if out.Protocol == 0 {
		return routes.Backend{}, fmt.Errorf("protocol %s is none of TLS, HTTP and TCP", b.GetProtocol())
	}
	for _, r := range b.GetSourcePrefixRanges() {
		p, err := parseRange(r)
		if err != nil {
			return routes.Backend{}, err
		}
		out.Sources = append(out.Sources, p)
	}
	for _, e := range b.GetEndpoints() {
		parsed, err := endpoint(e)
		if err != nil {
			return routes.Backend{}, err
		}
		out.Endpoints = append(out.Endpoints, parsed)
	}
	return out, nil
}

func protocolOf(p agentpb.ProxyProtocol) routes.Protocol {
	switch p {
	case agentpb.ProxyProtocol_PROXY_PROTOCOL_TLS:
		return routes.TLS
	case agentpb.ProxyProtocol_PROXY_PROTOCOL_HTTP:
		return routes.HTTP
	case agentpb.ProxyProtocol_PROXY_PROTOCOL_TCP:
		return routes.TCP
	default:
		return 0
	}
}

func portOf(p uint32) (uint16, error) {
	if p == 0 || p > 65535 {
		return 0, fmt.Errorf("port %d is no port", p)
	}
	return uint16(p), nil
}

// parseRange takes "192.0.2.7" for "192.0.2.7/32".
func parseRange(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("source range %q is no prefix", s)
	}
	return p, nil
}

func endpoint(e *agentpb.ProxyEndpoint) (routes.Endpoint, error) {
	port, err := portOf(e.GetPort())
	if err != nil {
		return routes.Endpoint{}, fmt.Errorf("endpoint: %w", err)
	}
	if (e.GetIp() == "") == (e.GetHostname() == "") {
		return routes.Endpoint{}, errors.New("an endpoint needs exactly one of ip and hostname")
	}
	out := routes.Endpoint{Host: e.GetHostname(), Port: port}
	if e.GetIp() != "" {
		if out.Addr, err = netip.ParseAddr(e.GetIp()); err != nil {
			return routes.Endpoint{}, fmt.Errorf("endpoint %q is no address", e.GetIp())
		}
	}
	return out, nil
}
