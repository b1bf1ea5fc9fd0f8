package oooi

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// FuzzQuery: whatever a client sends, an answer of ours parses, repeats the
// question byte for byte and stays within 512 bytes (hazard 111).
func FuzzQuery(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "cases", "*[^t]"))
	require.NoError(f, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(raw)
	}
	for _, name := range []string{".", "101.2.0.192.in-addr.arpa.", `\000\255\..apps.example-hcp-a.clusters.example.com.`, "kubernetes."} {
		raw, err := query(name, dns.TypeA).Pack()
		require.NoError(f, err)
		f.Add(raw)
	}
	o := handler(config(f, "snapshot.json"), nil)
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := new(dns.Msg)
		if q.Unpack(raw) != nil || q.Response {
			return
		}
		c := udp(onVLAN, fromWorker)
		_, err := o.ServeDNS(context.Background(), c, q)
		require.NoError(t, err)
		if c.wrote == 0 {
			return
		}
		m := new(dns.Msg)
		require.NoError(t, m.Unpack(c.raw), "%x", c.raw)
		require.Equal(t, q.Question, m.Question)
		require.LessOrEqual(t, len(c.raw), 512)
		require.Equal(t, 1, c.wrote)
	})
}

// FuzzName: a name's wire form agrees with the DNS library's.
func FuzzName(f *testing.F) {
	for _, s := range []string{".", "a.", "a.b.", `\097.`, `a\.b.`, "x", "..", `\`, `\2`, `\256.`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		sc := new(scratch)
		n, err := sc.packName(sc.out[:], name)
		want := make([]byte, 512)
		end, wantErr := dns.PackDomainName(name, want, 0, nil, false)
		if err != nil || wantErr != nil {
			return // the server only hands us what the library unpacked
		}
		require.Equal(t, want[:end], sc.out[:n], "%q", name)
	})
}
