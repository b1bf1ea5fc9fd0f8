package server

import (
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/crash"
	"github.com/densityops/oooi/dhcpd/internal/journal"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// load is clients as they see a server whose power goes again and again. What
// they were told counts, nothing else.
type load struct {
	t      *testing.T
	disk   *crash.Disk
	rand   *rand.Rand
	server *Server
	conn   *conn
	told   map[lease.MAC]promise
	acks   int
}

// promise is a lease that an ACK has given.
type promise struct {
	ip    netip.Addr
	until time.Time
}

const (
	promised = time.Hour // the lease time of these tests
	clients  = 12
)

// boot starts the server on what the disk holds.
func (l *load) boot() {
	j, found := journal.OpenOn(l.disk)
	cfg := configure(l.t, func(c *agentpb.DHCPConfig) {
		c.Range = &agentpb.AddressRange{Start: "192.0.2.100", End: "192.0.2.107"} // fewer than the clients
		c.LeaseSeconds = uint32(promised / time.Second)
	})
	l.server = New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now, Journal: j, Observe: func(string, string) {}}, cfg, found.Records)
	l.conn = &conn{ip: cfg.ServerIP, raw: true, frames: newBatch(batchSize + 1), datagrams: newBatch(batchSize + 1)}
}

func ciaddr(a netip.Addr) dhcpv4.Modifier {
	return func(d *dhcpv4.DHCPv4) { d.ClientIPAddr = net.IP(a.AsSlice()) }
}

// message is what a client says next.
func (l *load) message(m lease.MAC) []byte {
	p, bound := l.told[m]
	bound = bound && p.until.After(time.Now())
	any := netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + l.rand.IntN(8))})
	switch n := l.rand.IntN(12); {
	case n < 2:
		return message(l.t, m, dhcpv4.MessageTypeDiscover)
	case n < 7 && bound:
		return message(l.t, m, dhcpv4.MessageTypeRequest, ciaddr(p.ip))
	case n == 7 && bound: // it forgets its lease whether or not the server hears it
		delete(l.told, m)
		return message(l.t, m, dhcpv4.MessageTypeRelease, ciaddr(p.ip))
	case n == 8 && bound:
		delete(l.told, m)
		return message(l.t, m, dhcpv4.MessageTypeDecline, ask(p.ip.String()), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(serverIP))))
	case bound:
		return message(l.t, m, dhcpv4.MessageTypeRequest, ask(p.ip.String()))
	}
	return message(l.t, m, dhcpv4.MessageTypeRequest, ask(any.String()))
}

// turn has some clients speak at once, and does as the server's own turn does.
func (l *load) turn(messages ...[]byte) {
	for _, b := range messages {
		l.server.packet(l.conn, packet{payload: b, from: lease.MAC(b[28:34]), framed: true, port: serverPort}, time.Now())
	}
	if l.rand.IntN(10) == 0 {
		l.server.compact() // as it does when the file has grown
	}
	stored := l.server.commit()
	f := l.conn.frames
	for i := range f.n {
		if !l.disk.Crashed && f.leaves(i, stored) { // else the power is gone
			l.hear(f.bufs[i][headers:f.iovs[i].Len])
		}
	}
	f.n = 0
}

// hear is an answer that reaches its client.
func (l *load) hear(b []byte) {
	p, err := dhcpv4.FromBytes(b)
	require.NoError(l.t, err)
	if p.MessageType() != dhcpv4.MessageTypeAck {
		return
	}
	m, now := lease.MAC(p.ClientHWAddr), time.Now()
	ip := netip.AddrFrom4([4]byte(p.YourIPAddr.To4()))
	for other, o := range l.told {
		if other != m && o.ip == ip && o.until.After(now) {
			l.t.Fatalf("%s is given to %s while %s has it", ip, m, other)
		}
	}
	l.told[m] = promise{ip, now.Add(promised)}
	l.acks++
}

// remembered says that the server knows of everybody that was promised a lease,
// and has them renew it.
func (l *load) remembered() {
	for n := range byte(clients) {
		m := station(1 + n)
		p, ok := l.told[m]
		if !ok || !p.until.After(time.Now()) {
			continue
		}
		b, _ := l.server.table.Holder(p.ip)
		require.Equal(l.t, m, b.MAC, "%s is forgotten to have %s", m, p.ip)
		before := l.acks
		l.turn(message(l.t, m, dhcpv4.MessageTypeRequest, ciaddr(p.ip)))
		if l.disk.Crashed {
			return
		}
		require.Equal(l.t, before+1, l.acks, "%s cannot renew %s", m, p.ip)
	}
}

// behaviour C5: the power goes at every point where the disk is written to,
// thousands of times under load, also while the server starts. No address is
// given twice and no acknowledged lease is forgotten.
func TestNoLeaseIsForgottenOrGivenTwiceOverThousandsOfCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crashes, acks := 0, 0
		died := map[string]int{}
		for seed := range uint64(30) {
			l := &load{t: t, disk: crash.New(seed, 7), told: map[lease.MAC]promise{}}
			l.rand = l.disk.Rand
			l.disk.Died = died
			for range 100 {
				l.disk.Budget = l.rand.IntN(60)
				for l.boot(); !l.disk.Crashed; {
					l.remembered()
					for range 5 {
						var messages [][]byte
						for _, n := range l.rand.Perm(clients)[:1+l.rand.IntN(4)] {
							messages = append(messages, l.message(station(byte(1+n))))
						}
						l.turn(messages...)
					}
					<-time.After(time.Duration(l.rand.IntN(20)) * time.Minute)
					l.server.Tick()
				}
				l.disk.Crash()
				crashes++
			}
			acks += l.acks
		}
		t.Logf("%d crashes, %v, %d ACKs", crashes, died, acks)
		require.Equal(t, 3000, crashes)
		require.Greater(t, acks, 10000)
		for _, operation := range []string{"create", "write", "sync", "replace"} {
			require.Greater(t, died[operation], 100, "crashes in %s: %v", operation, died)
		}
	})
}
