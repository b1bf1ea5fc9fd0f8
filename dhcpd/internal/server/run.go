package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/densityops/oooi/dhcpd/internal/lease"
)

const (
	// announceFor and announceEvery: neighbours that still know the address
	// at another station learn of us even if some announcements are lost.
	announceFor   = time.Minute
	announceEvery = 5 * time.Second
	// lookEvery is how often the device is looked at, and our address asked
	// for to find another owner.
	lookEvery  = 2 * time.Second
	maxBackoff = 5 * time.Second
	// askAtStart is how often another owner of our address is asked for
	// before it is believed that there is none.
	askAtStart = 3
)

var (
	unspecified  = netip.IPv4Unspecified()
	broadcastIP  = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	broadcastMAC = lease.MAC{255, 255, 255, 255, 255, 255}
)

var errDeviceChanged = errors.New("device has changed")

// Run serves until ctx ends. Whatever happens to the device, it tries again.
func (s *Server) Run(ctx context.Context) error {
	backoff := 100 * time.Millisecond
	said := ""
	for {
		began := s.opts.Now()
		err := s.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			s.opts.Log.Warn("not serving", "err", err)
		}
		s.serving.Store(false)
		if s.opts.Now().Sub(began) > maxBackoff {
			backoff, said = 100*time.Millisecond, ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// Alone says whether another owner of our address was looked for, and none
// has answered. Without packet sockets nobody can tell.
func (s *Server) Alone() bool { return s.asked.Load() && !s.otherOwner() }

// Serving says whether the sockets are open.
func (s *Server) Serving() bool { return s.serving.Load() }

// Device is the device that is served, its zero value while there is none.
func (s *Server) Device() Device {
	if d := s.device.Load(); d != nil {
		return *d
	}
	return Device{}
}

// session serves on the device as it is now.
func (s *Server) session(ctx context.Context) error {
	ip := s.serverIP()
	dev, err := FindDevice(ip)
	if err != nil {
		return err
	}
	c, err := s.open(dev, ip)
	if c == nil {
		return err
	}
	defer s.close(c)
	if err != nil {
		s.opts.Log.Warn("answers to clients without an address are broadcast", "err", err)
	}
	s.serving.Store(true)
	s.opts.Log.Info("serving", "device", dev.Name, "ip", ip.String(), "raw", c.raw)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		c.stop()
		if c.arp != nil {
			c.arp.close()
		}
		return nil
	})
	g.Go(func() error { return s.serve(ctx, c) })
	g.Go(func() error { return s.look(ctx, c, ip) })
	s.asked.Store(c.arp == nil)
	if c.arp != nil {
		g.Go(func() error { return s.listenARP(ctx, c) })
		g.Go(func() error { return s.settleAll(ctx, c) })
		g.Go(func() error { return s.announce(ctx, c) })
	}
	return g.Wait()
}

// open opens the sockets and makes the state of a session anew.
func (s *Server) open(dev Device, ip netip.Addr) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := openConn(dev, ip, s.known)
	if c != nil {
		s.device.Store(&dev)
		s.conn, s.probes = c, probes{} // probes of an earlier session are lost; clients ask again
		s.handler.Near, s.handler.Config = c.arp != nil, s.fitting()
	}
	return c, err
}

func (s *Server) close(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = nil
	c.close()
}

func (s *Server) serverIP() netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.ServerIP
}

// serve is the loop that all messages go through.
func (s *Server) serve(ctx context.Context, c *conn) error {
	for {
		err := c.wait()
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = s.turn(c)
		}
		switch {
		case err == nil:
		case isDown(err):
			// The device will come back, or look ends the session.
			if wait(ctx, 100*time.Millisecond) != nil {
				return nil
			}
		default:
			return err
		}
	}
}

// turn handles what has arrived, stores what came of it with one sync, and
// only then answers.
func (s *Server) turn(c *conn) error {
	s.mu.Lock()
	now := s.opts.Now()
	err := c.receive(func(p packet) { s.packet(c, p, now) })
	stored := s.commit()
	s.mu.Unlock()
	if ferr := c.flush(stored); err == nil {
		err = ferr
	}
	return err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// look ends the session when the address has moved to another device, or the
// device was made anew, follows its MTU, and keeps asking who else has our
// address and whether routes lead to all relays.
func (s *Server) look(ctx context.Context, c *conn, ip netip.Addr) error {
	for wait(ctx, lookEvery) == nil {
		dev, err := FindDevice(s.serverIP())
		switch {
		case err != nil:
			return err
		case dev.Index != c.dev.Index || dev.MAC != c.dev.MAC || s.serverIP() != ip:
			return errDeviceChanged
		case dev.MTU != s.Device().MTU:
			s.follow(dev)
		}
		if c.arp != nil {
			c.arp.ask(unspecified, ip)
		}
		s.checkRelays(c, dev)
	}
	return nil
}

// follow takes over that the device is not as it was.
func (s *Server) follow(dev Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.device.Store(&dev)
	s.handler.Config = s.fitting()
}

func (s *Server) listenARP(ctx context.Context, c *conn) error {
	buf := make([]byte, 256)
	for {
		ip, mac, err := c.arp.read(buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && ip.IsValid():
			s.seen(c, ip, mac)
		case err == nil:
		case isDown(err) && !errors.Is(err, os.ErrClosed):
			if wait(ctx, 100*time.Millisecond) != nil {
				return nil
			}
		default:
			return err
		}
	}
}

// announce makes our address known, and asks a few times, since the first may
// be lost on a device that has only just come up, whether another DHCP server
// answers.
func (s *Server) announce(ctx context.Context, c *conn) error {
	for i := range int(announceFor / announceEvery) {
		if i < askAtStart {
			c.sendFrame(s.discover(c), broadcastMAC)
		}
		c.arp.ask(c.ip, c.ip)
		for range askAtStart {
			if i > 0 {
				break
			}
			c.arp.ask(unspecified, c.ip)
			if wait(ctx, probeTime) != nil {
				return nil
			}
		}
		s.asked.Store(true)
		if wait(ctx, announceEvery) != nil {
			return nil
		}
	}
	return nil
}

// discover is a DISCOVER of our own.
func (s *Server) discover(c *conn) []byte {
	b := make([]byte, headers+300)
	m := b[headers:]
	m[0], m[1], m[2] = 1, 1, 6
	_, _ = rand.Read(m[4:8]) // it never fails
	m[10] = 0x80             // broadcast
	copy(m[28:], c.dev.MAC[:])
	binary.BigEndian.PutUint32(m[236:], 0x63825363)
	copy(m[240:], []byte{53, 1, 1, 255})
	wrap(b, netip.AddrPortFrom(unspecified, clientPort), netip.AddrPortFrom(broadcastIP, serverPort))
	return b
}
