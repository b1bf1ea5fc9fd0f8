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

	"github.com/densityops/oooi/dhcpd/internal/lease"
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
	kinds := []string{"dhcp-bad-hlen0", "dhcp-bad-hlen255", "dhcp-bad-truncated-option", "dhcp-bad-short"}
	for range 1000 {
		for _, name := range kinds {
			b, err := os.ReadFile("../dhcp/testdata/" + name)
			require.NoError(t, err)
			s.packet(sockets, packet{payload: b, from: station(1), framed: true, port: serverPort}, now)
		}
	}
	require.Equal(t, 4000, dropped)
	require.Equal(t, len(kinds), strings.Count(out.String(), "message dropped"), out.String())
	require.Zero(t, sockets.frames.n+sockets.datagrams.n)
	require.Empty(t, s.table.Records())
}

// case C02, hazard 72: the server that a client has chosen is named by a problem
// and by one line, however many servers a station invents.
func TestAServerThatClientsChooseIsNamed(t *testing.T) {
	var out bytes.Buffer
	now := time.Now()
	s := New(Options{
		Log: slog.New(slog.NewJSONHandler(&out, nil)), Now: func() time.Time { return now }, Observe: func(string, string) {},
	}, configure(t, nil), nil)
	sockets := &conn{ip: s.cfg.ServerIP, raw: true, frames: newBatch(batchSize + 1), datagrams: newBatch(batchSize + 1)}
	send := func(b []byte) {
		s.packet(sockets, packet{payload: b, from: lease.MAC(b[28:34]), framed: true, port: serverPort}, now)
	}
	in, err := os.ReadFile("../dhcp/testdata/dhcp-request-other-server")
	require.NoError(t, err)
	at := bytes.Index(in, []byte{54, 4, 192, 0, 2, 9})
	require.Positive(t, at)
	problem := func() string {
		l := s.Problems()
		if len(l) == 0 {
			return ""
		}
		require.Len(t, l, 1)
		return l[0].Reason + ": " + l[0].Message
	}
	for _, ours := range [][]byte{{192, 0, 2, 2}, {0, 0, 0, 0}, {255, 255, 255, 255}} {
		other := bytes.Clone(in)
		copy(other[at+2:], ours)
		send(other)
	}
	relayed := bytes.Clone(in)
	copy(relayed[24:], []byte{203, 0, 113, 1})
	send(relayed)
	require.Empty(t, problem(), "no other server of this network")
	for range 1000 {
		send(in)
	}
	require.Equal(t, "ForeignDHCPServer: another DHCP server answers on this network: 192.0.2.9", problem())
	require.Equal(t, 1, strings.Count(out.String(), `"msg":"client has chosen another DHCP server","ip":"192.0.2.9","mac":"02:00:5e:10:00:0a"`), out.String())
	for i := range byte(200) {
		in[at+4] = i + 10
		send(in)
	}
	require.Equal(t, 1, strings.Count(out.String(), "another DHCP server"), out.String())
}
