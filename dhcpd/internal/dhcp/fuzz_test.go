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

// exchange is what a client costs: DISCOVER and REQUEST, or a renewal.
func exchange(tb testing.TB, h *Handler, messages [][]byte, buf []byte, m *Message) {
	for _, in := range messages {
		if err := m.Parse(in); err != nil {
			tb.Fatal(err)
		}
		if h.Handle(m, start, buf).Answer == nil {
			tb.Fatal("no answer")
		}
	}
	h.Table.Take(nil)
}

// exchanges are the cases' own bytes.
func exchanges(tb testing.TB) map[string][][]byte {
	return map[string][][]byte{
		"renewal": {file(tb, "dhcp-renew-ciaddr")},
		"DORA":    {file(tb, "dhcp-discover-bcast"), message(tb, theVM, dhcpv4.MessageTypeRequest, requested(theVMsIP), server("192.0.2.2"))},
	}
}

// What an answer allocates bounds what a flood of them costs. Most of it is the
// library's list of codes, which it sorts for each answer.
func TestAnAnswerAllocatesLittle(t *testing.T) {
	for name, messages := range exchanges(t) {
		t.Run(name, func(t *testing.T) {
			h, buf := newHandler(t, fixture(), true), make([]byte, 0, 2048)
			var m Message
			n := testing.AllocsPerRun(100, func() { exchange(t, h, messages, buf, &m) })
			if limit := float64(10 * len(messages)); n > limit {
				t.Fatalf("%g allocations, more than %g", n, limit)
			}
		})
	}
}

func BenchmarkHandle(b *testing.B) {
	for name, messages := range exchanges(b) {
		b.Run(name, func(b *testing.B) {
			h, buf := newHandler(b, fixture(), true), make([]byte, 0, 2048)
			var m Message
			b.ReportAllocs()
			for b.Loop() {
				exchange(b, h, messages, buf, &m)
			}
		})
	}
}
