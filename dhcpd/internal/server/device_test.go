package server

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/netns"
)

// hazard 20: option 26 never exceeds what our own device takes, now and after
// its MTU was changed.
func TestTheMTUFitsTheDevice(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	l.server.Configure(configure(t, func(c *agentpb.DHCPConfig) { c.Mtu = 9000 }))
	for _, c := range []struct {
		name string
		mtu  string // that the device is given
		want []byte
	}{
		{"as it was", "", []byte{5, 0xdc}},
		{"made smaller", "1400", []byte{5, 0x78}},
		{"made as large as the snapshot says", "9000", []byte{0x23, 0x28}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.mtu != "" {
				netns.Run(t, "ip", "link", "set", "vlan", "mtu", c.mtu)
			}
			require.Eventually(t, func() bool {
				l.send(station(1), "0.0.0.0", "255.255.255.255", message(t, station(1), dhcpv4.MessageTypeInform, func(d *dhcpv4.DHCPv4) { d.ClientIPAddr = net.IP{192, 0, 2, 50} }))
				_, p := l.answer(clientPort)
				return bytes.Equal(c.want, p.Options.Get(dhcpv4.OptionInterfaceMTU))
			}, time.Minute, 50*time.Millisecond)
		})
	}
}
