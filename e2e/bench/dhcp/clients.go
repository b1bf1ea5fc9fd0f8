package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// station is one client on the link, with a hardware address of its own.
type station struct {
	mac   [6]byte
	ip    [4]byte
	bound bool
	tries int
	next  time.Time // when it says the same again
	asked time.Time
}

// swarm is many stations behind one packet socket.
type swarm struct {
	fd       int
	stations []station
	given    map[[4]byte]int
	out      linkFigures
}

// clients boots n stations at once, waits until all are bound, and has them
// renew one after the other. It prints its figures as JSON.
func clients(args []string) error {
	fs := flag.NewFlagSet("clients", flag.ContinueOnError)
	n := fs.Int("n", 1000, "clients")
	if err := fs.Parse(args); err != nil {
		return err
	}
	s, err := newSwarm(*n)
	if err != nil {
		return err
	}
	if err := s.probe(); err != nil {
		return err
	}
	if err := s.boot(); err != nil {
		return err
	}
	if err := s.renew(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s.out)
}

func newSwarm(n int) (*swarm, error) {
	dev, err := net.InterfaceByName("eth0")
	if err != nil {
		return nil, err
	}
	const all = 0x0300 // ETH_P_ALL in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, all)
	if err != nil {
		return nil, err
	}
	// A full buffer loses what real clients would not.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: dev.Index}); err != nil {
		return nil, err
	}
	s := &swarm{fd: fd, stations: make([]station, n), given: map[[4]byte]int{}, out: linkFigures{Clients: n}}
	for i := range s.stations {
		s.stations[i].mac = [6]byte{2, 0xbe, 0, 0, byte(i >> 8), byte(i)}
	}
	return s, nil
}

// probe waits until the server answers at all.
func (s *swarm) probe() error {
	one := station{mac: [6]byte{2, 0xbf, 0, 0, 0, 0}}
	for range 100 {
		if err := s.send(&one, 0xffffffff, 1, [4]byte{}); err != nil {
			return err
		}
		found := false
		if err := s.receive(200*time.Millisecond, func(id uint32, _ byte, _ [4]byte) { found = found || id == 0xffffffff }); err != nil {
			return err
		}
		if found {
			return nil
		}
	}
	return errors.New("the server does not answer")
}

// boot is the storm: everybody asks at once, and again after 1, 2, 4 s.
func (s *swarm) boot() error {
	begin := time.Now()
	left := len(s.stations)
	for left > 0 {
		if time.Since(begin) > time.Minute {
			return fmt.Errorf("%d of %d clients have no address after a minute", left, len(s.stations))
		}
		now, burst := time.Now(), 0
		for i := range s.stations {
			c := &s.stations[i]
			if c.bound || now.Before(c.next) {
				continue
			}
			c.next = now.Add(time.Second << min(c.tries, 4))
			c.tries++
			c.ip = [4]byte{}
			if err := s.send(c, uint32(i), 1, c.ip); err != nil {
				return err
			}
			if burst++; burst == 64 { // take in what has come meanwhile
				break
			}
		}
		quiet := 2 * time.Millisecond
		if burst == 64 {
			quiet = 0
		}
		if err := s.receive(quiet, func(id uint32, typ byte, ip [4]byte) {
			if s.react(id, typ, ip) {
				left--
			}
		}); err != nil {
			return err
		}
	}
	s.out.StormS = time.Since(begin).Seconds()
	return nil
}

// react does what a client does with an answer. It says whether it is bound.
func (s *swarm) react(id uint32, typ byte, ip [4]byte) bool {
	if int(id) >= len(s.stations) {
		return false
	}
	c := &s.stations[id]
	switch {
	case typ == 6:
		s.out.Naks++
	case typ == 2 && !c.bound && c.ip == [4]byte{}:
		c.ip = ip
		c.next = time.Now().Add(4 * time.Second)
		if s.send(c, id, 3, ip) != nil {
			c.next = time.Now()
		}
	case typ == 5 && !c.bound && c.ip == ip:
		if s.given[ip]++; s.given[ip] > 1 {
			s.out.Twice++
		}
		c.bound = true
		return true
	}
	return false
}

// renew has clients renew at some 1,000 a second, one after the other.
func (s *swarm) renew() error {
	var took []time.Duration
	for k := range 2000 {
		i := k * 7919 % len(s.stations)
		c := &s.stations[i]
		c.asked = time.Now()
		if err := s.send(c, uint32(i), 8, c.ip); err != nil {
			return err
		}
		done := false
		for time.Since(c.asked) < time.Second && !done {
			if err := s.receive(time.Millisecond, func(id uint32, typ byte, _ [4]byte) {
				if id == uint32(i) && typ == 5 {
					took = append(took, time.Since(c.asked))
					done = true
				}
			}); err != nil {
				return err
			}
		}
		if !done {
			return fmt.Errorf("client %d cannot renew", i)
		}
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	s.out.RenewP50MS, s.out.RenewP99MS = ms(took[len(took)/2]), ms(took[len(took)*99/100])
	return nil
}

// receive takes in what comes until it is quiet for a while.
func (s *swarm) receive(quiet time.Duration, got func(id uint32, typ byte, ip [4]byte)) error {
	buf := make([]byte, 2048)
	for {
		p := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, int(quiet.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		k, err := unix.Read(s.fd, buf)
		if err != nil {
			return err
		}
		b := buf[:k]
		if k < 14+28+244 || b[12] != 8 || b[23] != 17 || binary.BigEndian.Uint16(b[36:]) != 68 || b[42] != 2 {
			continue
		}
		got(binary.BigEndian.Uint32(b[46:]), messageType(b[42+240:]), [4]byte(b[58:62]))
		quiet = 0
	}
}

// send puts a message on the wire. Type 8 is a renewal of ip.
func (s *swarm) send(c *station, id uint32, typ byte, ip [4]byte) error {
	b := make([]byte, 14+28+300)
	copy(b, "\xff\xff\xff\xff\xff\xff")
	copy(b[6:], c.mac[:])
	b[12] = 8
	h := b[14:]
	copy(h, []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17})
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)))
	copy(h[16:], "\xff\xff\xff\xff")
	m := h[28:]
	copy(m, []byte{1, 1, 6, 0})
	binary.BigEndian.PutUint32(m[4:], id)
	m[10] = 0x80
	copy(m[28:], c.mac[:])
	binary.BigEndian.PutUint32(m[236:], 0x63825363)
	o := append(m[:240], 53, 1, min(typ, 3))
	switch typ {
	case 8:
		o[len(o)-1] = 3
		m[10] = 0
		copy(m[12:], ip[:])
		copy(h[12:], ip[:])
	case 3:
		o = append(append(o, 50, 4), ip[:]...)
		o = append(o, 54, 4, 198, 18, 0, 1)
	}
	_ = append(o, 255)
	copy(h[20:], []byte{0, 68, 0, 67})
	binary.BigEndian.PutUint16(h[24:], uint16(len(h)-20))
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum+sum>>16))
	_, err := unix.Write(s.fd, b)
	return err
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
