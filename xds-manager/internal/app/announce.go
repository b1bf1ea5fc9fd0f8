package app

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// announcements are the moments after the start at which the address is made
// known: most neighbours learn at once, a minute covers a bridge that is late.
var announcements = []time.Duration{0, time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}

// discardPort is the discard service (RFC 863): a datagram that nobody reads.
const discardPort = 9

// announce makes the server address known on the VLAN. A datagram to an address
// without a neighbour entry makes the kernel broadcast an ARP request (RFC 826)
// from our address, and every neighbour that knows us corrects its entry. That
// needs no right, and unlike the bridge plugin's own announcement it arrives.
func announce(ctx context.Context, logger *slog.Logger, device string, self netip.Addr, cidr netip.Prefix, reserved []netip.Addr) {
	avoid := map[netip.Addr]bool{self: true}
	for _, a := range reserved {
		avoid[a] = true
	}
	start := time.Now()
	for _, at := range announcements {
		if !waitUntil(ctx, start.Add(at)) {
			return
		}
		for a := range neighbours() {
			avoid[a] = true
		}
		target, ok := quietAddress(cidr, avoid)
		if !ok {
			return
		}
		avoid[target] = true
		d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(self, 0)), Control: bound(device)}
		c, err := d.DialContext(ctx, "udp4", netip.AddrPortFrom(target, discardPort).String())
		if err != nil {
			logger.Warn("address not announced", "ip", self.String(), "err", err)
			continue
		}
		_, werr := c.Write([]byte{0})
		logger.Debug("address announced", "ip", self.String(), "target", target.String(), "err", werr)
		if err := c.Close(); err != nil {
			logger.Debug("closing announcement", "err", err)
		}
	}
}

func waitUntil(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// neighbours are the addresses that the kernel has an entry for.
func neighbours() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	b, err := os.ReadFile("/proc/net/arp")
	if err != nil {
		return out
	}
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		if f := strings.Fields(sc.Text()); len(f) > 0 {
			if a, err := netip.ParseAddr(f[0]); err == nil {
				out[a] = true
			}
		}
	}
	return out
}

// quietAddress is a host address of the network that is to be avoided by
// nobody: the highest one, because pools begin low.
func quietAddress(cidr netip.Prefix, avoid map[netip.Addr]bool) (netip.Addr, bool) {
	const tries = 1 << 16
	last := cidr.Masked().Addr()
	for i := 0; i < tries && cidr.Contains(last.Next()); i++ {
		last = last.Next()
	}
	// last is the broadcast address, or far enough up in a vast network.
	for a := last.Prev(); cidr.Contains(a) && a != cidr.Masked().Addr(); a = a.Prev() {
		if !avoid[a] {
			return a, true
		}
	}
	return netip.Addr{}, false
}
