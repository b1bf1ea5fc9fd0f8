package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/dhcp"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

const (
	serverPort = 67
	clientPort = 68
	// batchSize is how many messages are handled with one sync.
	batchSize = 128
	// frameSize holds an IP packet of 1500 bytes, and shows a longer one.
	frameSize = 2048
	// headers are the IP and UDP headers in front of a message.
	headers = 28
	// receiveBuffer takes a boot storm of some thousand clients.
	receiveBuffer = 8 << 20
)

// ErrNoRaw is returned where the process may not open packet sockets.
var ErrNoRaw = errors.New("no right to open packet sockets (NET_RAW)")

// packet is a received message.
type packet struct {
	payload []byte
	src     netip.AddrPort
	dst     netip.Addr
	port    uint16 // where it was sent to
	from    lease.MAC
	framed  bool // from is known
}

// conn is an open server port. With raw it sees frames, and so who really
// sent a message, and it can reach clients that have no address yet; without
// it, it broadcasts to those.
type conn struct {
	dev Device
	ip  netip.Addr
	raw *os.File
	rc  syscall.RawConn
	udp *os.File
	uc  syscall.RawConn
	arp *arpConn
	in  *batch
	// frames go out by the packet socket, datagrams by the routing table.
	frames    *batch
	datagrams *batch
}

// openConn opens the sockets on dev. Without NET_RAW it opens UDP alone, and
// says so with ErrNoRaw beside a working conn.
func openConn(dev Device, ip netip.Addr) (*conn, error) {
	c := &conn{
		dev: dev, ip: ip, in: newBatch(batchSize),
		frames: newBatch(batchSize + 1), datagrams: newBatch(batchSize + 1),
	}
	raw, rawErr := openPacket(dev.Index, unix.ETH_P_IP, laneFilter(nil, false))
	if rawErr != nil && !errors.Is(rawErr, unix.EPERM) {
		return nil, fmt.Errorf("opening packet socket on %s: %w", dev.Name, rawErr)
	}
	c.raw = raw
	udp, err := openUDP(dev.Name, ip, raw != nil)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("opening port %d on %s: %w", serverPort, dev.Name, err)
	}
	c.udp = udp
	if c.uc, err = udp.SyscallConn(); err != nil {
		c.close()
		return nil, err
	}
	c.rc = c.uc
	if raw == nil {
		c.datagrams.sendFrom(dev.Index, ip)
		return c, ErrNoRaw
	}
	if c.rc, err = raw.SyscallConn(); err == nil {
		c.arp, err = openARP(dev)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conn) close() {
	for _, f := range []*os.File{c.raw, c.udp} {
		if f != nil {
			_ = f.Close() // nothing is buffered in a socket of ours
		}
	}
	if c.arp != nil {
		c.arp.close()
	}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// openPacket opens a packet socket that takes one protocol of one device,
// without the link header.
func openPacket(ifindex int, proto uint16, filter []unix.SockFilter) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = func() error {
		if len(filter) > 0 {
			if err := attach(fd, filter); err != nil {
				return err
			}
		}
		// What we send ourselves is of no interest.
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return os.NewSyscallError("PACKET_IGNORE_OUTGOING", err)
		}
		growBuffer(fd)
		return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(proto), Ifindex: ifindex}))
	}()
	if err != nil {
		_ = unix.Close(fd) // the first error counts
		return nil, err
	}
	return os.NewFile(uintptr(fd), "packet"), nil
}

// growBuffer asks for a large receive buffer; FORCE needs NET_ADMIN, and the
// kernel's limit will do without.
func growBuffer(fd int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) // a smaller one still works
	}
}

func attach(fd int, filter []unix.SockFilter) error {
	return os.NewSyscallError("SO_ATTACH_FILTER", unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}))
}

var dropFilter = []unix.SockFilter{{Code: 0x06, K: 0}}

// openUDP opens port 67 on the device. Beside a packet socket it only sends,
// and holds the port; alone it must be bound to all addresses, since Linux
// delivers no broadcast to a socket that is bound to one.
func openUDP(device string, ip netip.Addr, sendOnly bool) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	local := &unix.SockaddrInet4{Port: serverPort}
	err = func() error {
		if err := unix.BindToDevice(fd, device); err != nil {
			return os.NewSyscallError("SO_BINDTODEVICE", err)
		}
		for _, o := range []struct{ level, name int }{
			{unix.SOL_SOCKET, unix.SO_REUSEADDR}, {unix.SOL_SOCKET, unix.SO_BROADCAST}, {unix.IPPROTO_IP, unix.IP_PKTINFO},
		} {
			if err := unix.SetsockoptInt(fd, o.level, o.name, 1); err != nil {
				return os.NewSyscallError("setsockopt", err)
			}
		}
		if sendOnly {
			local.Addr = ip.As4()
			if err := attach(fd, dropFilter); err != nil {
				return err
			}
		}
		growBuffer(fd)
		return os.NewSyscallError("bind", unix.Bind(fd, local))
	}()
	if err != nil {
		_ = unix.Close(fd) // the first error counts
		return nil, err
	}
	return os.NewFile(uintptr(fd), "udp"), nil
}

// receive waits for messages and calls do for each.
func (c *conn) receive(do func(packet)) error {
	n, err := c.in.receive(c.rc)
	if err != nil {
		return err
	}
	for i := range n {
		size := int(c.in.msgs[i].n)
		b := c.in.bufs[i][:size]
		var p packet
		ok := false
		if c.raw != nil {
			p, ok = unwrap(b)
			p.framed = true
			copy(p.from[:], c.in.from[i].Addr[:])
		} else {
			p, ok = c.fromUDP(b, i)
		}
		if ok && (p.dst == c.ip || isBroadcast(p.dst) || p.port == clientPort) {
			do(p)
		}
	}
	return nil
}

// isBroadcast also takes a network's broadcast address, which relays use: the
// kernel has delivered the frame, and what is ours the message tells.
func isBroadcast(a netip.Addr) bool {
	b := a.As4()
	return b[3] == 255
}

func (c *conn) fromUDP(b []byte, i int) (packet, bool) {
	sa := (*[8]byte)(unsafe.Pointer(&c.in.from[i])) // struct sockaddr_in
	src := netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), binary.BigEndian.Uint16(sa[2:4]))
	return packet{payload: b, src: src, dst: c.ip, port: serverPort}, true
}

// unwrap takes the IP and UDP headers off. The UDP checksum is not looked at:
// frames from a neighbour on the same machine carry a partial one.
func unwrap(b []byte) (packet, bool) {
	if len(b) < headers || b[0]>>4 != 4 {
		return packet{}, false
	}
	ihl := int(b[0]&15) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	if ihl < 20 || total < ihl+8 || total > len(b) {
		return packet{}, false
	}
	u := b[ihl:total]
	size := int(binary.BigEndian.Uint16(u[4:]))
	if size < 8 || size > len(u) {
		return packet{}, false
	}
	return packet{
		payload: u[8:size],
		src:     netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), binary.BigEndian.Uint16(u)),
		dst:     netip.AddrFrom4([4]byte(b[16:20])),
		port:    binary.BigEndian.Uint16(u[2:]),
	}, true
}

// slot is where the next answer is to be built, headers left free.
func (c *conn) slot() []byte { return c.frames.bufs[c.frames.n][:headers] }

// queue takes the message of size bytes that was built in slot for sending.
// One that is fresh is only sent if its record could be stored.
func (c *conn) queue(size int, to dhcp.Destination, fresh bool) {
	built := c.frames.bufs[c.frames.n][:headers+size]
	if to.Relay || c.raw == nil {
		i := c.datagrams.add(copy(c.datagrams.bufs[c.datagrams.n], built[headers:]), fresh)
		c.datagrams.setInet(i, c.udpTarget(to))
		return
	}
	wrap(built, netip.AddrPortFrom(c.ip, serverPort), netip.AddrPortFrom(to.IP, clientPort))
	i := c.frames.add(len(built), fresh)
	c.frames.from[i] = c.linkAddress(to.MAC)
}

// udpTarget is where the kernel is to send a message. Without a packet socket
// a client that has no address yet gets a broadcast.
func (c *conn) udpTarget(to dhcp.Destination) netip.AddrPort {
	switch {
	case to.Relay: // RFC 2131 section 4.1: to the relay's server port
		return netip.AddrPortFrom(to.IP, serverPort)
	case to.Configured:
		return netip.AddrPortFrom(to.IP, clientPort)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), clientPort)
}

// linkAddress is where a frame goes; to nobody in particular, to everybody.
func (c *conn) linkAddress(mac lease.MAC) unix.RawSockaddrLinklayer {
	sa := unix.RawSockaddrLinklayer{Family: unix.AF_PACKET, Protocol: htons(unix.ETH_P_IP), Ifindex: int32(c.dev.Index), Halen: 6}
	if mac == (lease.MAC{}) {
		mac = lease.MAC{255, 255, 255, 255, 255, 255}
	}
	copy(sa.Addr[:], mac[:])
	return sa
}

// flush sends what is queued; without stored, only what is not fresh.
func (c *conn) flush(stored bool) error {
	if c.raw != nil {
		if err := c.frames.flush(c.rc, stored); err != nil {
			return err
		}
	}
	return c.datagrams.flush(c.uc, stored)
}

// sendFrame sends one frame that was wrapped earlier.
func (c *conn) sendFrame(frame []byte, mac lease.MAC) {
	sa := c.linkAddress(mac)
	to := &unix.SockaddrLinklayer{Protocol: sa.Protocol, Ifindex: int(sa.Ifindex), Halen: sa.Halen, Addr: sa.Addr}
	// A refusal by the kernel is a lost message; the client asks again.
	_ = c.rc.Write(func(fd uintptr) bool {
		return unix.Sendto(int(fd), frame, unix.MSG_DONTWAIT, to) != unix.EAGAIN
	})
}
