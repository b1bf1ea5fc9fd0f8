package dhcp

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/e2e/lab"
)

// tap is a packet socket on a device of a host. The socket stays in the host's
// network; the test that uses it never enters it.
type tap struct {
	file *os.File
	mu   sync.Mutex
	seen []packet // guarded by mu
}

// packet is a DHCP message and what its frame said.
type packet struct {
	at       time.Time
	out      bool // the tap's own host has sent it
	src, dst string
	from, to netip.AddrPort
	payload  []byte
	summed   bool // the UDP checksum is there and right (RFC 768)
}

// inside has f run in a host's network, by a thread that ends with it.
func inside(h *lab.Host, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever
		ns, err := os.Open("/proc/" + strconv.Itoa(h.PID()) + "/ns/net")
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func openTap(t *testing.T, h *lab.Host, device string) *tap {
	t.Helper()
	out := &tap{}
	require.NoError(t, inside(h, func() error {
		w, err := openWire(device)
		if err != nil {
			return err
		}
		// So that closing it ends read.
		if err := unix.SetNonblock(w.fd, true); err != nil {
			return err
		}
		out.file = os.NewFile(uintptr(w.fd), device)
		return nil
	}))
	t.Cleanup(func() { out.file.Close() })
	c, err := out.file.SyscallConn()
	require.NoError(t, err)
	go out.read(c)
	return out
}

// read notes what comes until the tap is closed.
func (p *tap) read(c syscall.RawConn) {
	buf := make([]byte, 4096)
	for {
		var n int
		var from unix.Sockaddr
		var err error
		if c.Read(func(fd uintptr) bool {
			n, from, err = unix.Recvfrom(int(fd), buf, 0)
			return err != unix.EAGAIN
		}) != nil {
			return
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if err != nil || !ok {
			continue
		}
		if m, ok := parseFrame(bytes.Clone(buf[:n])); ok {
			m.at, m.out = time.Now(), link.Pkttype == unix.PACKET_OUTGOING
			p.mu.Lock()
			p.seen = append(p.seen, m)
			p.mu.Unlock()
		}
	}
}

// mark is a place to look from, by since.
func (p *tap) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// since is what was seen after a mark and is wanted.
func (p *tap) since(mark int, wanted func(packet) bool) []packet {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []packet
	for _, m := range p.seen[mark:] {
		if wanted(m) {
			out = append(out, m)
		}
	}
	return out
}

// parseFrame reads a DHCP message of either direction.
func parseFrame(b []byte) (packet, bool) {
	if len(b) < 14+20 || b[12] != 8 || b[13] != 0 {
		return packet{}, false
	}
	ip := b[14:]
	head := int(ip[0]&15) * 4
	total := int(binary.BigEndian.Uint16(ip[2:]))
	if ip[9] != 17 || head < 20 || total > len(ip) || total < head+8 {
		return packet{}, false
	}
	udp := ip[head:total]
	port := func(at int) uint16 { return binary.BigEndian.Uint16(udp[at:]) }
	if to := port(2); to != 67 && to != 68 || int(port(4)) != len(udp) {
		return packet{}, false
	}
	return packet{
		dst: net.HardwareAddr(b[:6]).String(), src: net.HardwareAddr(b[6:12]).String(),
		from:    netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[12:16])), port(0)),
		to:      netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[16:20])), port(2)),
		payload: udp[8:],
		summed:  port(6) != 0 && fold(sum(pseudo(ip, len(udp)))+sum(udp)) == 0xffff,
	}, true
}

// sum adds the words of b up, as RFC 1071 does.
func sum(b []byte) uint32 {
	var out uint32
	for ; len(b) > 1; b = b[2:] {
		out += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		out += uint32(b[0]) << 8
	}
	return out
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// pseudo is the header that UDP's checksum includes (RFC 768).
func pseudo(ip []byte, length int) []byte {
	return append(append([]byte{}, ip[12:20]...), 0, 17, byte(length>>8), byte(length))
}

// envelope is where a message goes and comes from.
type envelope struct {
	src, dst string
	from, to string
}

// send puts a message on the wire.
func (p *tap) send(t *testing.T, e envelope, payload []byte) {
	t.Helper()
	src, err := net.ParseMAC(e.src)
	require.NoError(t, err)
	dst, err := net.ParseMAC(e.dst)
	require.NoError(t, err)
	from, to := netip.MustParseAddrPort(e.from), netip.MustParseAddrPort(e.to)
	b := append(append(append([]byte{}, dst...), src...), 8, 0)
	b = append(b, 0x45, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(28+len(payload)))
	b = append(b, 0, 0, 0, 0, 64, 17, 0, 0)
	b = append(append(b, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	ip := b[14:34:34]
	binary.BigEndian.PutUint16(ip[10:], ^fold(sum(ip)))
	udp := binary.BigEndian.AppendUint16(nil, from.Port())
	udp = binary.BigEndian.AppendUint16(udp, to.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(payload)))
	udp = append(append(udp, 0, 0), payload...)
	binary.BigEndian.PutUint16(udp[6:], ^fold(sum(pseudo(ip, len(udp)))+sum(udp)))
	c, err := p.file.SyscallConn()
	require.NoError(t, err)
	var sent error
	require.NoError(t, c.Write(func(fd uintptr) bool {
		_, sent = unix.Write(int(fd), append(b, udp...))
		return sent != unix.EAGAIN && sent != unix.ENOBUFS
	}))
	require.NoError(t, sent)
}

const (
	everybody = "ff:ff:ff:ff:ff:ff"
	patience  = 15 * time.Second
)

// broadcast sends a client's message as one that has no address sends it.
func (p *tap) broadcast(t *testing.T, m []byte) {
	t.Helper()
	p.send(t, envelope{chaddr(m), everybody, "0.0.0.0:68", "255.255.255.255:67"}, m)
}

// unicast sends a client's message from the address that it says it has.
func (p *tap) unicast(t *testing.T, m []byte) {
	t.Helper()
	p.send(t, envelope{chaddr(m), serverMAC, ciaddr(m) + ":68", serverIP + ":67"}, m)
}

// answers are the replies to m that came after a mark.
func (p *tap) answers(mark int, m []byte) []packet {
	return p.since(mark, func(a packet) bool {
		return !a.out && a.payload[0] == 2 && bytes.Equal(a.payload[4:8], m[4:8]) && bytes.Equal(a.payload[28:34], m[28:34])
	})
}

// answer waits for the reply to m.
func (p *tap) answer(t *testing.T, mark int, m []byte, limit time.Duration) packet {
	t.Helper()
	var out packet
	require.NoError(t, waitFor(t.Context(), limit, "an answer", func() bool {
		l := p.answers(mark, m)
		if len(l) > 0 {
			out = l[0]
		}
		return len(l) > 0
	}, func() string { return "silence" }))
	return out
}

// ask sends m and waits for the reply.
func (p *tap) ask(t *testing.T, send func(*testing.T, []byte), m []byte) packet {
	t.Helper()
	mark := p.mark()
	send(t, m)
	return p.answer(t, mark, m, patience)
}

// insist sends m again and again, as clients do, until there is a reply. dhcpd
// leaves the DISCOVERs of a station that it knows nothing of unanswered in the
// first second, since its machine may be about to be known (hazard 75); and a
// new holder gives addresses only once they are set aside.
func (p *tap) insist(t *testing.T, send func(*testing.T, []byte), m []byte) packet {
	t.Helper()
	mark, last := p.mark(), time.Time{}
	var out packet
	require.NoError(t, waitFor(t.Context(), 4*patience, "an answer", func() bool {
		if time.Since(last) > 1100*time.Millisecond {
			send(t, m)
			last = time.Now()
		}
		l := p.answers(mark, m)
		if len(l) > 0 {
			out = l[0]
		}
		return len(l) > 0
	}, func() string { return "silence" }))
	return out
}
