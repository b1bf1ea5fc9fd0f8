package server

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
)

// behaviour C9, hazard 88: at debug one line for each transaction, else one for
// what changes who has which address, and none for a renewal.
func TestOneLogLineForATransaction(t *testing.T) {
	discover := message(t, station(1), dhcpv4.MessageTypeDiscover)
	request := message(t, station(1), dhcpv4.MessageTypeRequest, ask("192.0.2.100"))
	for _, c := range []struct {
		name  string
		level slog.Level
		want  []int // lines after each message
	}{
		{"info", slog.LevelInfo, []int{0, 1, 1, 1, 1}},
		{"debug", slog.LevelDebug, []int{1, 2, 3, 4, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Now()
			s := New(Options{
				Log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: c.level})),
				Now: func() time.Time { return now }, Observe: func(string, string) {},
			}, configure(t, nil), nil)
			sockets := &conn{ip: s.cfg.ServerIP, raw: true, frames: newBatch(batchSize + 1), datagrams: newBatch(batchSize + 1)}
			for i, m := range [][]byte{discover, request, request, request, discover} {
				s.packet(sockets, packet{payload: m, from: station(1), framed: true, port: serverPort}, now)
				s.commit()
				require.Equal(t, c.want[i], strings.Count(out.String(), "\n"), out.String())
			}
		})
	}
}

// case C09: thousands of malformed messages are one line of each kind, and
// leave nothing behind.
func TestMalformedMessagesAreLoggedOnceOfAKind(t *testing.T) {
	var out bytes.Buffer
	now := time.Now()
	dropped := 0
	s := New(Options{
		Log: slog.New(slog.NewJSONHandler(&out, nil)), Now: func() time.Time { return now },
		Observe: func(typ, _ string) { dropped += strings.Count(typ, "malformed") },
	}, configure(t, nil), nil)
	sockets := &conn{ip: s.cfg.ServerIP, raw: true, frames: newBatch(batchSize + 1), datagrams: newBatch(batchSize + 1)}
	for range 1000 {
		for _, name := range []string{"dhcp-bad-hlen0", "dhcp-bad-hlen255", "dhcp-bad-truncated-option", "dhcp-bad-short"} {
			b, err := os.ReadFile("../dhcp/testdata/" + name)
			require.NoError(t, err)
			s.packet(sockets, packet{payload: b, from: station(1), framed: true, port: serverPort}, now)
		}
	}
	require.Equal(t, 4000, dropped)
	require.Equal(t, 3, strings.Count(out.String(), "message dropped"), out.String())
	require.Zero(t, sockets.frames.n+sockets.datagrams.n)
	require.Empty(t, s.table.Records())
}
