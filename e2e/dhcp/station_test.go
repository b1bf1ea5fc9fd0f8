package dhcp

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/e2e/lab"
)

// This test program also runs inside of hosts, as a station that sends whatever
// it likes. These variables tell it so.
const (
	floodEnv = "OOOI_E2E_FLOOD" // "MAC IP SERVERMAC" of a victim and the server
	swarmEnv = "OOOI_E2E_SWARM" // number of the round
)

func TestMain(m *testing.M) {
	var err error
	switch flood, swarm := os.Getenv(floodEnv), os.Getenv(swarmEnv); {
	case flood != "":
		err = runFlood(flood)
	case swarm != "":
		err = runSwarm(swarm)
	default:
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// wire is a packet socket on a device.
type wire struct{ fd int }

func openWire(device string) (wire, error) {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return wire{}, err
	}
	const all = 0x0300 // ETH_P_ALL in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, all)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: dev.Index})
	}
	return wire{fd}, err
}

// frame is a DHCP message on the wire.
func frame(src, chaddr []byte, typ byte, id uint32, options ...byte) []byte {
	b := make([]byte, 14+28+300)
	copy(b, "\xff\xff\xff\xff\xff\xff")
	copy(b[6:], src)
	b[12] = 8
	h := b[14:]
	copy(h, []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17})
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)))
	copy(h[16:], "\xff\xff\xff\xff\x00\x44\x00\x43")
	binary.BigEndian.PutUint16(h[24:], uint16(len(h)-20))
	m := h[28:]
	copy(m, []byte{1, 1, 6, 0})
	binary.BigEndian.PutUint32(m[4:], id)
	m[10] = 0x80
	copy(m[28:], chaddr)
	binary.BigEndian.PutUint32(m[236:], 0x63825363)
	copy(m[240:], append(append([]byte{53, 1, typ}, options...), 255))
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum+sum>>16))
	return b
}

// runFlood sends junk, floods of new clients, and RELEASEs and DECLINEs in the
// victim's name, at up to 100,000 packets a second, until it is killed.
// It sends them to the server alone: a flood of broadcasts drowns the clients
// themselves, whatever the server does.
func runFlood(victim string) error {
	words := strings.Fields(victim)
	hw, err := net.ParseMAC(words[0])
	if err != nil {
		return err
	}
	to, err := net.ParseMAC(words[2])
	if err != nil {
		return err
	}
	addr := netip.MustParseAddr(words[1]).As4()
	w, err := openWire("eth0")
	if err != nil {
		return err
	}
	own := []byte{2, 0x66, 0x66, 0x66, 0x66, 0x66}
	server := []byte{54, 4, 192, 0, 2, 2}
	n := 0
	for begin := time.Now(); ; {
		var f []byte
		switch r := rand.Uint32(); r % 8 {
		case 0, 1, 2:
			client := []byte{2, 0x77, byte(r >> 24), byte(r >> 16), byte(r >> 8), byte(n)}
			f = frame(client, client, 1, r)
		case 3:
			f = frame(own, hw, 7, r, server...) // RELEASE of the victim, by its own frame
			copy(f[14+28+12:], addr[:])
		case 4:
			f = frame(own, hw, 4, r, append([]byte{50, 4, addr[0], addr[1], addr[2], addr[3]}, server...)...)
		case 5:
			f = frame(own, own, 3, r, 50, 4, addr[0], addr[1], addr[2], addr[3]) // the victim's address for itself
		case 6:
			f = frame(own, own, 1, r)
			f[14+28+2] = byte(r >> 8) // any hardware address length
		case 7:
			f = frame(own, own, 1, r)
			for i := 14 + 28; i < len(f); i++ {
				f[i] = byte(rand.Uint32())
			}
		}
		copy(f, to)
		if _, err := unix.Write(w.fd, f); err != nil && err != unix.ENOBUFS {
			return err
		}
		if n++; n%1000 == 0 {
			fmt.Fprintln(os.Stdout, n)
			if ahead := time.Duration(n)*time.Second/100000 - time.Since(begin); ahead > 0 {
				<-time.After(ahead)
			}
		}
	}
}

// sent is how many packets a flood says that it has sent.
func sent(p *lab.Process) int {
	lines := strings.Fields(p.Output())
	if len(lines) == 0 {
		return 0
	}
	n, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		return 0
	}
	return n
}

// runSwarm has a few clients boot again and again, and says who got what.
func runSwarm(round string) error {
	k, err := strconv.Atoi(round)
	if err != nil {
		return err
	}
	w, err := openWire("eth0")
	if err != nil {
		return err
	}
	tv := unix.NsecToTimeval((200 * time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return err
	}
	client := func(i int) []byte { return []byte{2, 0x88, 0, 0, byte(k), byte(i)} }
	ask := func(i int) error {
		_, err := unix.Write(w.fd, frame(client(i), client(i), 1, uint32(i)))
		return err
	}
	buf := make([]byte, 2048)
	for {
		for i := range 3 {
			if err := ask(i); err != nil {
				return err
			}
		}
		for quiet := time.Now(); time.Since(quiet) < 1500*time.Millisecond; {
			n, err := unix.Read(w.fd, buf)
			if err != nil {
				continue
			}
			b := buf[:n]
			if n < 14+28+244 || b[12] != 8 || b[23] != 17 || binary.BigEndian.Uint16(b[36:]) != 68 || b[42] != 2 {
				continue
			}
			i, ip := int(binary.BigEndian.Uint32(b[46:])), b[58:62]
			switch messageType(b[42+240:]) {
			case 2:
				if _, err := unix.Write(w.fd, frame(client(i), client(i), 3, uint32(i), append([]byte{50, 4, ip[0], ip[1], ip[2], ip[3]}, 54, 4, 192, 0, 2, 2)...)); err != nil {
					return err
				}
			case 5:
				fmt.Fprintf(os.Stdout, "ack %s %s\n", net.HardwareAddr(client(i)), net.IP(ip))
			}
		}
	}
}

// messageType is option 53 of the options b, 0 when absent (RFC 2132 section 9.6).
func messageType(b []byte) byte {
	for len(b) > 2 && b[0] != 255 && len(b) >= 2+int(b[1]) {
		if b[0] == 53 {
			return b[2]
		}
		b = b[2+int(b[1]):]
	}
	return 0
}
