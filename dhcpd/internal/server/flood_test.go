package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/journal"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// desk is a server without sockets, on a clock of the test.
type desk struct {
	*Server
	now     time.Time
	out     bytes.Buffer
	counts  map[string]int
	sockets *conn
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	return newDeskOn(t, nil)
}

func newDeskOn(t *testing.T, j *journal.Journal) *desk {
	t.Helper()
	d := &desk{now: time.Now(), counts: map[string]int{}}
	d.Server = New(Options{
		Log: slog.New(slog.NewJSONHandler(&d.out, nil)), Journal: j, Now: func() time.Time { return d.now },
		Observe: func(typ, outcome string) { d.counts[typ+" "+outcome]++ },
	}, configure(t, nil), nil)
	d.sockets = &conn{ip: d.cfg.ServerIP, raw: true, frames: newBatch(batchSize + 1), datagrams: newBatch(batchSize + 1)}
	return d
}

// take handles a packet, and says how many answers it gets.
func (d *desk) take(p packet) int {
	p.framed = true
	d.packet(d.sockets, p, d.now)
	d.commit()
	defer func() { d.sockets.frames.n = 0 }()
	return d.sockets.frames.n
}

// problem is the message of a problem, empty if there is none.
func (d *desk) problem(reason string) string {
	for _, p := range d.Problems() {
		if p.Reason == reason {
			return p.Message
		}
	}
	return ""
}

// case C09, hazard 88: whatever a station repeats is a line now and then, and
// nothing that it invents hides what is real.
func TestAFloodFillsNeitherTheLogNorTheStatus(t *testing.T) {
	offer := func(n int) []byte {
		b, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer), dhcpv4.WithOption(dhcpv4.OptServerIdentifier([]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})))
		require.NoError(t, err)
		b.OpCode = dhcpv4.OpcodeBootReply
		return b.ToBytes()
	}
	many := func(n int) lease.MAC { return lease.MAC{2, 7, 7, 7, byte(n >> 8), byte(n)} }
	for _, c := range []struct {
		name   string
		line   string
		reason string
		flood  func(t *testing.T, n int) packet
		status string // at the end
		left   string // of the next line of this kind
	}{
		{
			"a server that says to be another each time", "another DHCP server", "ForeignDHCPServer",
			func(_ *testing.T, n int) packet {
				return packet{payload: offer(n), from: station(66), port: clientPort}
			},
			"network: 10.0.0.0, 10.255.255.255",
			`"left_out":1`,
		},
		{
			"another server each time", "another DHCP server", "ForeignDHCPServer",
			func(_ *testing.T, n int) packet { return packet{payload: offer(n), from: many(n), port: clientPort} },
			"10.255.255.255, and more",
			`"left_out":5000`,
		},
		{
			"a machine that declines its address", "found its address in use", "AddressDeclined",
			func(t *testing.T, n int) packet {
				if n%2 == 0 {
					return packet{payload: message(t, station(1), dhcpv4.MessageTypeRequest, ask("192.0.2.150")), from: station(1), port: serverPort}
				}
				return packet{payload: message(t, station(1), dhcpv4.MessageTypeDecline, ask("192.0.2.150"), dhcpv4.WithOption(dhcpv4.OptServerIdentifier([]byte{192, 0, 2, 2}))), from: station(1), port: serverPort}
			},
			"192.0.2.150 of 02:00:00:00:00:01 (ns/vm)",
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			d.SetDirectory(directory{station(1)}, []lease.MAC{station(1)})
			for n := range 5000 {
				d.take(c.flood(t, n))
				d.now = d.now.Add(time.Millisecond)
			}
			require.Equal(t, 1, strings.Count(d.out.String(), c.line), d.out.String())
			d.take(packet{payload: offer(0xffffff), from: station(77), port: clientPort})
			require.Contains(t, d.problem(c.reason), c.status)
			require.Contains(t, d.problem("ForeignDHCPServer"), "10.255.255.255", "the real one")
			d.now = d.now.Add(logEvery)
			d.take(packet{payload: offer(3), from: station(78), port: clientPort})
			require.Contains(t, d.out.String(), c.left, "what was left out is counted")
			d.now = d.now.Add(2 * remember)
			require.Empty(t, d.problem(c.reason))
		})
	}
}

// hazard 73: a machine that never stops is not read, and takes nothing from the
// others of its lane.
func TestAMachineThatNeverStopsIsNotRead(t *testing.T) {
	vm := func(n byte) packet {
		return packet{payload: message(t, station(n), dhcpv4.MessageTypeRequest, ask(fmt.Sprintf("192.0.2.%d", 150+n))), from: station(n), port: serverPort, urgent: true}
	}
	impostor := vm(1)
	impostor.from[0] = 6
	copy(impostor.payload[28:], impostor.from[:])
	stranger := vm(9)
	stranger.urgent = false
	for _, c := range []struct {
		name   string
		packet packet
		want   int // answers to 5,000 in a second
		later  int // to 5,000 more, a second later
	}{
		{"a machine", vm(1), machineBurst, machineRate},
		{"one that shares four bytes with a machine", impostor, machineBurst, machineRate},
		{"a stranger, whose lane is another", stranger, 5000, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			d.SetDirectory(pair{station(1), station(2)}, []lease.MAC{station(1), station(2)})
			count := func() (n int) {
				for range 5000 {
					n += d.take(c.packet)
				}
				return n
			}
			require.Equal(t, c.want, count())
			require.Equal(t, 1, d.take(vm(2)), "another machine is served")
			d.now = d.now.Add(time.Second)
			require.Equal(t, c.later, count())
			require.Equal(t, 1, d.take(vm(2)))
			require.Equal(t, 10000-c.want-c.later, d.counts["unread too_many"])
			require.LessOrEqual(t, strings.Count(d.out.String(), "sends too much"), 1, d.out.String())
		})
	}
}

// pair is a directory of two machines.
type pair [2]lease.MAC

func (p pair) VMs(m lease.MAC) []lease.VM {
	if m != p[0] && m != p[1] {
		return nil
	}
	return []lease.VM{{Namespace: "ns", Name: "vm-" + m.String(), Interface: "net"}}
}
func (pair) Exists(lease.VM) lease.Existence { return lease.Exists }
func (pair) Len() int                        { return 2 }
