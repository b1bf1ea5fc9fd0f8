package dhcp

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// behaviour C10: no message, whatever its bytes, ends the process, and every
// answer can be read.
func FuzzHandle(f *testing.F) {
	files, err := filepath.Glob("testdata/dhcp-*")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		h := newHandler(t, fixture(), true)
		buf := make([]byte, 0, 2048)
		for _, b := range [][]byte{first, second, first} {
			Foreign(b)
			var m Message
			if m.Parse(b) != nil {
				continue
			}
			r := h.Handle(&m, start, buf)
			if r.Answer == nil {
				continue
			}
			if len(r.Answer) < 300 {
				t.Fatalf("an answer of %d bytes", len(r.Answer))
			}
			p, err := dhcpv4.FromBytes(r.Answer)
			if err != nil {
				t.Fatalf("an answer that cannot be read: %v", err)
			}
			if p.TransactionID != [4]byte(b[4:8]) {
				t.Fatal("an answer to something else")
			}
		}
	})
}

// behaviour C8: an answer costs no allocation.
func BenchmarkHandle(b *testing.B) {
	h := newHandler(b, fixture(), true)
	in := file(b, "dhcp-renew-ciaddr")
	buf := make([]byte, 0, 2048)
	var m Message
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Parse(in); err != nil {
			b.Fatal(err)
		}
		h.Handle(&m, start, buf)
		h.Table.Take(nil)
	}
}
