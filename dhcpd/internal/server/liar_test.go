package server

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/netns"
)

// hazard 71: a station that answers every question for an address keeps no
// machine from getting one, and the work that it makes comes to an end.
func TestAStationThatAnswersEveryProbeCostsOneTry(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	for i, c := range []struct {
		name     string
		as       func(n int) lease.MAC // who the answer says it is from
		messages int                   // of the machine, at most
		answers  int                   // of the liar, at most
		problem  string
	}{
		{"as itself", func(int) lease.MAC { return station(99) }, 1, 8, "02:00:00:00:00:63"},
		{"as somebody else each time", func(n int) lease.MAC { return lease.MAC{2, 7, 7, 7, byte(n >> 8), byte(n)} }, 4, 40, "unprobed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm := station(byte(i + 1))
			l.server.SetDirectory(directory{vm}, []lease.MAC{vm})
			discover := message(t, vm, dhcpv4.MessageTypeDiscover)
			answers := 0
			offered := func(f seen) bool {
				if f.proto == unix.ETH_P_ARP && binary.BigEndian.Uint16(f.body[6:]) == 1 && f.body[27] >= 100 {
					answers++
					l.arp(c.as(answers), netip.AddrFrom4([4]byte(f.body[24:28])).String())
				}
				return f.proto == unix.ETH_P_IP && f.dst == vm
			}
			messages, ok := 0, false
			for !ok && messages < c.messages {
				messages++
				l.send(vm, "0.0.0.0", "255.255.255.255", discover)
				_, ok = l.next(1500*time.Millisecond, offered)
			}
			require.True(t, ok, "no address after %d messages and %d answers", messages, answers)
			_, ok = l.next(500*time.Millisecond, offered)
			require.False(t, ok)
			require.LessOrEqual(t, answers, c.answers)
			var told []string
			for _, p := range l.server.Problems() {
				if p.Reason == "AddressProbesAnswered" {
					told = append(told, p.Message)
				}
			}
			require.Contains(t, strings.Join(told, "\n"), c.problem)
		})
	}
}
