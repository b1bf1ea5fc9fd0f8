package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/dhcp"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

const (
	serverPort = 67
	clientPort = 68
	// batchSize is how many messages are handled with one sync. Answers come in
	// bursts of as many, which a relay's default buffer must hold.
	batchSize = 128
	// leastOfLane is what each lane may take of a batch, however full others are.
	leastOfLane = 8
	// frameSize holds an IP packet of 1500 bytes, and shows a longer one.
	frameSize = 2048
	// headers are the IP and UDP headers in front of a message.
	headers = 28
	// receiveBuffer takes a boot storm of some thousand clients.
	receiveBuffer = 8 << 20
	// discoverBuffer takes some 3,000 DISCOVERs. They are handled at several
	// thousand a second, so an OFFER comes before its client has lost patience;
	// what does not fit is asked again.
	discoverBuffer = 2 << 20
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
	urgent  bool // of the machines' lane
}

// conn is an open server port. With packet sockets, one for each lane, it sees
// frames, and so who really sent a message, and it can reach clients that have
// no address yet; without them it broadcasts to those. Its sockets are open
// until close, which nothing else may outlive.
type conn struct {
	dev Device
	ip  netip.Addr
	// lanes are what is received from, in the order of their urgency: packet
	// sockets, or the UDP socket alone.
	lanes []int
	raw   bool // they are packet sockets
	udp   int
	bell  int // wakes the receiver, to stop
	arp   *arpConn
	in    *batch
	// frames go out by the strangers' packet socket, datagrams by the routing
	// table.
	frames    *batch
	datagrams *batch
}

// openConn opens the sockets on dev, with known machines in a lane of their
// own. Without NET_RAW it opens UDP alone, and says so with ErrNoRaw beside a
// working conn.
func openConn(dev Device, ip netip.Addr, known []lease.MAC) (*conn, error) {
	c := &conn{
		dev: dev, ip: ip, udp: -1, bell: -1, in: newBatch(batchSize),
		frames: newBatch(batchSize + 1), datagrams: newBatch(batchSize + 1),
	}
	err := c.open(known)
	if err != nil && !errors.Is(err, ErrNoRaw) {
		c.close()
		return nil, fmt.Errorf("opening port %d on %s: %w", serverPort, dev.Name, err)
	}
	return c, err
}

func (c *conn) open(known []lease.MAC) error {
	var err error
	if c.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	err = c.openLanes(known)
	noRaw := errors.Is(err, unix.EPERM)
	if err != nil && !noRaw {
		return err
	}
	c.raw = !noRaw
	if c.udp, err = openUDP(c.dev.Name, c.ip, c.raw); err != nil {
		return err
	}
	if noRaw {
		c.lanes = []int{c.udp}
		c.datagrams.sendFrom(c.dev.Index, c.ip)
		return ErrNoRaw
	}
	c.arp, err = openARP(c.dev)
	return err
}

// stop ends wait, now and for ever.
func (c *conn) stop() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(c.bell, one[:]) // it can only fail where the bell rings already
}

func (c *conn) close() {
	fds := []int{c.udp, c.bell}
	if c.raw {
		fds = append(fds, c.lanes...)
	}
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing is buffered in a socket of ours
		}
	}
	if c.arp != nil {
		c.arp.close()
	}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// openPacket opens a packet socket that takes one protocol of one device,
// without the link header.
func openPacket(ifindex int, proto uint16, filter []unix.SockFilter, buffer int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
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
		growBuffer(fd, buffer)
		return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(proto), Ifindex: ifindex}))
	}()
	if err != nil {
		_ = unix.Close(fd) // the first error counts
		return -1, err
	}
	return fd, nil
}

// growBuffer asks for a large receive buffer; FORCE needs NET_ADMIN, and the
// kernel's limit will do without.
func growBuffer(fd, size int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size) // a smaller one still works
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
func openUDP(device string, ip netip.Addr, sendOnly bool) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
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
		growBuffer(fd, receiveBuffer)
		return os.NewSyscallError("bind", unix.Bind(fd, local))
	}()
	if err != nil {
		_ = unix.Close(fd) // the first error counts
		return -1, err
	}
	return fd, nil
}

// wait waits until there is something to receive, or stop was called.
func (c *conn) wait() error {
	fds := make([]unix.PollFd, 0, int(lanes)+1)
	for _, fd := range c.lanes {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	fds = append(fds, unix.PollFd{Fd: int32(c.bell), Events: unix.POLLIN})
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
}

// receive takes at most a batch of what has arrived and calls do for each
// message. The urgent lanes come first, and each has leastOfLane to itself.
func (c *conn) receive(do func(packet)) error {
	room := batchSize
	for i, fd := range c.lanes {
		n, err := c.in.receive(fd, room-leastOfLane*(len(c.lanes)-1-i))
		if err != nil {
			return err
		}
		room -= n
		for k := range n {
			p, ok := c.packet(k)
			p.urgent = c.raw && lane(i) == machines
			if ok && (p.dst == c.ip || isBroadcast(p.dst) || p.port == clientPort) {
				do(p)
			}
		}
	}
	return nil
}

// packet is message i of the batch that has come in.
func (c *conn) packet(i int) (packet, bool) {
	b := c.in.bufs[i][:c.in.msgs[i].n]
	if !c.raw {
		return c.fromUDP(b, i)
	}
	p, ok := unwrap(b)
	p.framed = true
	copy(p.from[:], c.in.from[i].Addr[:])
	return p, ok
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
	if to.Relay || !c.raw {
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
	var err error
	if c.raw {
		err = c.frames.flush(c.lanes[strangers], stored)
	}
	if derr := c.datagrams.flush(c.udp, stored); err == nil {
		err = derr
	}
	return err
}

// sendFrame sends one frame that was wrapped earlier.
func (c *conn) sendFrame(frame []byte, mac lease.MAC) {
	sa := c.linkAddress(mac)
	to := &unix.SockaddrLinklayer{Protocol: sa.Protocol, Ifindex: int(sa.Ifindex), Halen: sa.Halen, Addr: sa.Addr}
	// What the kernel refuses is a lost message; the client asks again.
	_ = unix.Sendto(c.lanes[strangers], frame, unix.MSG_DONTWAIT, to)
}
