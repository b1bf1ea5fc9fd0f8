package oooi

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	announceFor   = time.Minute
	announceEvery = 5 * time.Second
	discardPort   = 9 // RFC 863
)

// announce makes our address known on the VLAN: a pod that is made anew keeps
// its address but not its MAC, and neighbours would go on with the old one for
// minutes. A datagram to an address without a neighbour entry makes the kernel
// broadcast an ARP request from our address, which corrects every neighbour
// (RFC 826). It needs no right.
func announce(ctx context.Context, from netip.Addr, cidr netip.Prefix) {
	ctx, cancel := context.WithTimeout(ctx, announceFor)
	defer cancel()
	t := time.NewTicker(announceEvery)
	defer t.Stop()
	to := lastHost(cidr)
	for {
		if to = unknownNeighbour(to, from, cidr, neighbours()); to.IsValid() {
			if err := announceTo(ctx, from, to); err != nil && ctx.Err() == nil {
				log.Warningf("Announcing %s: %v", from, err)
			}
			to = to.Prev()
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// announceTo sends one empty datagram by the VLAN device.
func announceTo(ctx context.Context, from, to netip.Addr) error {
	held, err := listDevices()
	if err != nil {
		return err
	}
	device, ok := held.holding(from)
	if !ok {
		return fmt.Errorf("no device holds %s", from)
	}
	bind := bindControl(device)
	d := net.Dialer{
		LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)),
		Control: func(_, _ string, c syscall.RawConn) error {
			var bound error
			if err := c.Control(func(fd uintptr) { bound = bind(fd) }); err != nil {
				return err
			}
			return bound
		},
	}
	conn, err := d.DialContext(ctx, "udp4", netip.AddrPortFrom(to, discardPort).String())
	if err != nil {
		return err
	}
	defer conn.Close() // nothing was promised
	_, err = conn.Write([]byte{0})
	return err
}

// lastHost is the highest address that is not the broadcast address.
func lastHost(cidr netip.Prefix) netip.Addr {
	raw := cidr.Masked().Addr().As4()
	for bit := cidr.Bits(); bit < 32; bit++ {
		raw[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(raw).Prev()
}

// unknownNeighbour goes down from start to the first host address that is not
// ours and has no neighbour entry; it begins again at the top once.
func unknownNeighbour(start, from netip.Addr, cidr netip.Prefix, known map[netip.Addr]bool) netip.Addr {
	const tries = 1024
	a := start
	for range tries {
		if !a.IsValid() || !cidr.Contains(a) || a == cidr.Masked().Addr() {
			a = lastHost(cidr)
		}
		if a != from && !known[a] && cidr.Contains(a) {
			return a
		}
		a = a.Prev()
	}
	return netip.Addr{}
}

// neighbours reads the kernel's table (proc(5), /proc/net/arp).
func neighbours() map[netip.Addr]bool {
	known := map[netip.Addr]bool{}
	f, err := os.Open("/proc/net/arp")
	if err != nil {
		return known
	}
	defer f.Close() // only read
	for s := bufio.NewScanner(f); s.Scan(); {
		if field := strings.Fields(s.Text()); len(field) > 0 {
			if a, err := netip.ParseAddr(field[0]); err == nil {
				known[a] = true
			}
		}
	}
	return known
}
