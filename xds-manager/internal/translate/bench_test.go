package translate_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/xds-manager/internal/agent"
	"github.com/densityops/oooi/xds-manager/internal/translate"
)

// big is a snapshot of n attachments with three workers each.
func big(tb testing.TB, n int) []byte {
	tb.Helper()
	var backends []any
	for a := range n {
		var sources []any
		for k := range 3 {
			w := 3*a + k
			sources = append(sources, fmt.Sprintf("198.19.%d.%d/32", w/250, 1+w%250))
		}
		add := func(name string, port int, protocol string, sources []any, names ...any) {
			backends = append(backends, map[string]any{
				"name": fmt.Sprintf("hcp-%d/%s", a, name), "port": port, "protocol": "PROXY_PROTOCOL_" + protocol, "hostnames": names,
				"sourcePrefixRanges": sources, "endpoints": []any{map[string]any{"ip": "172.30.0.1", "port": 6443}}, "podSide": sources == nil,
			})
		}
		d := fmt.Sprintf(".hcp-%d.clusters.example.com", a)
		add("api", 6443, "TLS", nil, "api"+d, "api-int"+d)
		add("oauth", 443, "TLS", nil, "oauth"+d)
		add("ignition", 443, "TLS", nil, "ignition"+d)
		add("konnectivity", 443, "TLS", nil, "konnectivity"+d)
		add("alias-api", 6443, "TCP", sources)
		add("alias-tls", 443, "TLS", sources, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
		add("fallback", 443, "TLS", sources)
	}
	b, err := json.Marshal(map[string]any{"proxy": map[string]any{"serverIp": "198.18.0.4", "cidr": "198.18.0.0/15", "backends": backends}})
	require.NoError(tb, err)
	return b
}

func BenchmarkDecode(b *testing.B) {
	in := big(b, 1000)
	for b.Loop() {
		_, err := agent.Decode(in)
		require.NoError(b, err)
	}
}

func BenchmarkValidate(b *testing.B) {
	s, err := agent.Decode(big(b, 1000))
	require.NoError(b, err)
	for b.Loop() {
		_, problems := s.Table.Validate()
		require.Empty(b, problems)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s, err := agent.Decode(big(b, 1000))
	require.NoError(b, err)
	t, _ := s.Table.Validate()
	for b.Loop() {
		_, _, err := translate.Snapshot(t, pod)
		require.NoError(b, err)
	}
}

func BenchmarkSnapshotWithMemory(b *testing.B) {
	s, err := agent.Decode(big(b, 1000))
	require.NoError(b, err)
	t, _ := s.Table.Validate()
	var tr translate.Translator
	for b.Loop() {
		_, _, err := tr.Snapshot(t, pod)
		require.NoError(b, err)
	}
}
