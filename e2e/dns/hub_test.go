package dns

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/densityops/oooi/e2e/lab"
)

// operator is a running stand-in of the operator's gRPC service.
type operator struct {
	*lab.Process
	in  io.Writer
	env []string
}

// startHub starts the stand-in beside the upstream.
func startHub(t *testing.T, r *Rig) *operator {
	t.Helper()
	program, err := Build(t.Context(), r.Dir, "hub", filepath.Join(r.root, "e2e"), "./dns/hub")
	require.NoError(t, err)
	ca, token, state := filepath.Join(r.Dir, "ca.crt"), filepath.Join(r.Dir, "token"), filepath.Join(r.Dir, "state")
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o644)) //nolint:gosec // for a program without rights
	require.NoError(t, os.Mkdir(state, 0o777))                         //nolint:gosec // for a program without rights
	require.NoError(t, os.Chmod(state, 0o777))                         //nolint:gosec // for a program without rights
	out, in, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	p, err := r.Node.Start(lab.Spec{Args: []string{program, "-listen", UpstreamIP + ":8443", "-ca", ca}, Stdin: out})
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the stand-in's certificate", func(context.Context) error {
		if err := p.Running(); err != nil {
			return err
		}
		_, err := os.Stat(ca)
		return err
	}))
	return &operator{Process: p, in: in, env: []string{
		"OOOI_SNAPSHOT=", "OOOI_HUB=" + UpstreamIP + ":8443", "OOOI_HUB_CA=" + ca, "OOOI_TOKEN=" + token,
		"OOOI_CHILD=ns/dns", "OOOI_STATE_DIR=" + state,
	}}
}

// send makes a message the newest.
func (o *operator) send(t *testing.T, message []byte) {
	t.Helper()
	_, err := fmt.Fprintln(o.in, base64.StdEncoding.EncodeToString(message))
	require.NoError(t, err)
}

// content is a DNS configuration as the tests change it.
type content struct {
	generation int
	records    []record
	upstreams  []string
}

type record struct{ name, address string } // of the VLAN view

// manyNames is a snapshot of 50 clusters whose proxy and upstreams depend on i.
func manyNames(i int) content {
	c := content{generation: i + 1, upstreams: []string{UpstreamIP}}
	for n := range 50 {
		c.records = append(c.records,
			record{fmt.Sprintf("api.hcp-%d.clusters.example.com", n), fmt.Sprintf("192.0.2.%d", 10+i%200)},
			record{fmt.Sprintf("*.apps.hcp-%d.clusters.example.com", n), "192.0.2.200"})
	}
	if i%100 >= 50 {
		c.upstreams = append(c.upstreams, UpstreamIP+":5353")
	}
	return c
}

// json is the snapshot as a file holds it.
func (c content) json() string {
	var records []string
	for _, r := range c.records {
		records = append(records, fmt.Sprintf(`{"name": %q, "vlan": {"policy": "DNS_POLICY_ANSWER", "addresses": [%q]}}`, r.name, r.address))
	}
	return fmt.Sprintf(`{"child": {"uid": "u", "generation": %d}, "dns": {"cidr": "192.0.2.0/24", "serverIp": %q, "records": [%s], "upstreams": ["%s"]}}`,
		c.generation, ServerIP, strings.Join(records, ","), strings.Join(c.upstreams, `","`))
}

// message is the snapshot as the stream carries it: a WatchResponse, by the
// numbers of operator/api/agent/v1/fields.lock.
func (c content) message(version int) []byte {
	const answer = 1 // DNSPolicy.DNS_POLICY_ANSWER
	dns := text(text(nil, 1, "192.0.2.0/24"), 2, ServerIP)
	for _, r := range c.records {
		view := text(varint(nil, 1, answer), 2, r.address)
		dns = embed(dns, 5, embed(text(nil, 1, r.name), 2, view))
	}
	for _, u := range c.upstreams {
		dns = text(dns, 7, u)
	}
	child := varint(text(text(text(nil, 1, "ns"), 2, "dns"), 3, "u"), 4, uint64(c.generation))
	snapshot := text(nil, 1, fmt.Sprintf("sha256:%064d", version))
	return embed(nil, 1, embed(embed(snapshot, 2, child), 11, dns))
}

func text(b []byte, number protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

func embed(b []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), message)
}

func varint(b []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}
