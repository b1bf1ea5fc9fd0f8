package lease

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hazards 41, 42, 92: expired leases come back, oldest first; nothing that is
// stored is given to another; one client has one address.
func TestExpiredAddressesAreReusedOldestFirst(t *testing.T) {
	table := New(small(3), start)
	for i := range byte(3) {
		dora(t, table, unknown(i), start.Add(time.Duration(2-i)*time.Minute))
	}
	require.Equal(t, NoFree, table.Offer(unknown(9), netip.Addr{}, start.Add(3*time.Minute)).Reason)
	later := start.Add(2 * time.Hour)
	require.Equal(t, ip("192.0.2.102"), dora(t, table, unknown(9), later), "the address that expired first comes first")
	require.Equal(t, ip("192.0.2.101"), dora(t, table, unknown(8), later))
	require.Equal(t, ip("192.0.2.100"), dora(t, table, unknown(0), later), "who had an address gets it again if it is free")
}

// hazard 247: an offer holds its address for a minute and stores nothing.
func TestAnOfferStoresNothingAndLapses(t *testing.T) {
	table := New(small(1), start)
	o := table.Offer(unknown(1), netip.Addr{}, start)
	require.Equal(t, ip("192.0.2.100"), o.IP)
	require.True(t, o.Probe, "an address that was never used is probed (hazard 71)")
	require.Empty(t, table.Take(nil))
	require.Equal(t, NoFree, table.Offer(unknown(2), netip.Addr{}, start.Add(59*time.Second)).Reason)
	require.Equal(t, Ack, table.Offer(unknown(2), netip.Addr{}, start.Add(61*time.Second)).Verdict)
	check(t, table)
}

// hazard 43, behaviour C1: what a client asks for is confirmed or refused,
// never replaced.
func TestNobodyIsAcknowledgedAnotherAddressThanAsked(t *testing.T) {
	table := New(fixture(), start)
	mine := dora(t, table, unknown(1), start)
	dora(t, table, unknown(2), start)
	for _, c := range []struct {
		name   string
		client Client
		asks   string
		want   Verdict
		reason Reason
	}{
		{"its own address", unknown(1), mine.String(), Ack, OK},
		{"another network", unknown(1), "198.51.100.77", Nak, WrongNetwork},
		{"an address that it does not have", unknown(1), "192.0.2.150", Nak, WrongAddress},
		{"another's address", unknown(1), "192.0.2.101", Nak, WrongAddress},
		{"another's address, from nowhere", unknown(3), "192.0.2.101", Nak, Taken},
		{"the gateway", unknown(3), "192.0.2.1", Nak, NotInPool},
		{"the server", unknown(3), "192.0.2.2", Nak, NotInPool},
		{"an excluded address", unknown(3), "192.0.2.203", Nak, NotInPool},
		{"the network's own address", unknown(3), "192.0.2.0", Nak, NotInPool},
		{"the broadcast address", unknown(3), "192.0.2.255", Nak, NotInPool},
		{"a free address of the pool, after its record was lost (hazard 46)", unknown(3), "192.0.2.177", Ack, OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := table.Request(c.client, ip(c.asks), start)
			require.Equal(t, c.want, a.Verdict)
			require.Equal(t, c.reason, a.Reason)
			if c.want == Ack {
				require.Equal(t, ip(c.asks), a.IP)
			}
			check(t, table)
		})
	}
}

// hazard 12, behaviour C3: a machine keeps its address as long as it exists.
func TestAMachineKeepsItsAddressAsLongAsItExists(t *testing.T) {
	table := New(small(2), start)
	c, vm := machine(1, "cluster-a")
	d := directory(c)
	table.Sync(d, start)
	addr := dora(t, table, c, start)
	week := start.Add(7 * 24 * time.Hour)
	table.Tick(week)
	require.Equal(t, Binding{MAC: c.MAC, IP: addr, VM: vm}, table.Bindings()[0], "stopped for a week")
	require.Equal(t, addr, dora(t, table, c, week))

	table.Sync(away{}, week.Add(time.Hour))
	table.Tick(week.Add(1000 * time.Hour))
	require.Equal(t, addr, dora(t, table, Client{MAC: c.MAC}, week.Add(1000*time.Hour)), "the API server is away, so nobody says that it is gone")
	check(t, table)
}

// hazard 13: the address is the machine's, not the hardware address's.
func TestAMachineWithANewHardwareAddressKeepsItsAddress(t *testing.T) {
	table := New(fixture(), start)
	c, vm := machine(1, "cluster-a")
	table.Sync(directory(c), start)
	addr := dora(t, table, c, start)
	moved := Client{MAC: mac(77), VMs: []VM{vm}}
	table.Sync(directory(moved), start)
	require.Equal(t, addr, dora(t, table, moved, start.Add(time.Minute)))
	require.Len(t, table.Bindings(), 1)
	require.Equal(t, Nak, table.Request(unknown(1), addr, start.Add(2*time.Minute)).Verdict, "the old one has lost it")
}

// hazards 14, 76: of two machines with one hardware address the one that has
// the lease keeps it, and its name.
func TestTheHolderKeepsAddressAndNameWhenAnotherMachineHasItsHardwareAddress(t *testing.T) {
	table := New(fixture(), start)
	first := VM{Namespace: "cluster-b", Name: "z", Interface: "net"}
	second := VM{Namespace: "cluster-a", Name: "a", Interface: "net"}
	addr := dora(t, table, Client{MAC: mac(1), VMs: []VM{first}}, start)
	both := Client{MAC: mac(1), VMs: []VM{second, first}}
	for i := range 100 {
		a := table.Request(both, addr, start.Add(time.Duration(i)*time.Minute))
		require.Equal(t, Ack, a.Verdict)
		require.Equal(t, first, a.VM)
	}
}

// hazards 65, 66: a declined address rests, for everybody, and survives.
func TestADeclinedAddressIsOfferedToNobody(t *testing.T) {
	table := New(fixture(), start)
	addr := dora(t, table, unknown(1), start)
	table.Take(nil)
	require.Equal(t, NotTheirs, table.Decline(mac(2), addr, start), "not by another client")
	require.Equal(t, NotTheirs, table.Decline(mac(1), ip("192.0.2.150"), start), "not for another address")
	require.Equal(t, OK, table.Decline(mac(1), addr, start))
	require.Equal(t, []Record{{IP: addr, State: Quarantined, Until: start.Add(time.Hour)}}, table.Take(nil))
	require.NotEqual(t, addr, dora(t, table, unknown(1), start))
	require.Equal(t, Nak, table.Request(unknown(3), addr, start).Verdict)

	again := New(fixture(), start)
	again.Restore(table.Records(), start.Add(time.Minute))
	require.Equal(t, Nak, again.Request(unknown(3), addr, start.Add(time.Minute)).Verdict, "after a restart too")
	require.Equal(t, Ack, again.Request(unknown(3), addr, start.Add(61*time.Minute)).Verdict)
}

// hazard 66: declining cannot empty the pool.
func TestDecliningTakesAtMostAQuarterOfThePool(t *testing.T) {
	table := New(small(20), start)
	for i := range byte(60) {
		addr := dora(t, table, unknown(i), start)
		require.Equal(t, OK, table.Decline(mac(i), addr, start))
	}
	require.Equal(t, 5, table.Stats().Declined)
	dora(t, table, unknown(100), start)
}

func TestTheOldestDeclinedAddressIsUsedWhenThereIsNoOther(t *testing.T) {
	table := New(small(1), start)
	addr := dora(t, table, unknown(1), start)
	require.Equal(t, OK, table.Decline(mac(1), addr, start))
	o := table.Offer(unknown(2), netip.Addr{}, start)
	require.Equal(t, addr, o.IP)
	require.True(t, o.Probe, "but not before somebody was asked whether it is free now")
}

// hazards 67, 68: a machine's address is neither declined nor released away.
func TestAMachineKeepsItsAddressWhateverAPacketSays(t *testing.T) {
	table := New(fixture(), start)
	c, _ := machine(1, "cluster-a")
	table.Sync(directory(c), start)
	addr := dora(t, table, c, start)
	require.Equal(t, Kept, table.Decline(c.MAC, addr, start))
	require.Equal(t, Kept, table.Release(c.MAC, addr, start))
	require.Equal(t, addr, dora(t, table, c, start))
}

// hazard 68: nobody releases another's address.
func TestReleaseNeedsTheClientAndItsAddress(t *testing.T) {
	table := New(fixture(), start)
	addr := dora(t, table, unknown(1), start)
	require.Equal(t, NotTheirs, table.Release(mac(2), addr, start))
	require.Equal(t, NotTheirs, table.Release(mac(1), ip("192.0.2.101"), start))
	require.Equal(t, OK, table.Release(mac(1), addr, start))
	require.Empty(t, table.Bindings())
	require.Equal(t, addr, dora(t, table, unknown(1), start), "and it gets it again if nobody else took it")
}

// hazard 44, case C02: who chooses another server frees our offer.
func TestChoosingAnotherServerFreesTheOffer(t *testing.T) {
	table := New(fixture(), start)
	table.Offer(unknown(1), netip.Addr{}, start)
	require.Equal(t, 99, table.Stats().Free)
	table.Withdraw(mac(1))
	require.Equal(t, 100, table.Stats().Free)
	addr := dora(t, table, unknown(1), start)
	table.Withdraw(mac(1))
	require.Equal(t, addr, table.Bindings()[0].IP, "a lease is not an offer")
	check(t, table)
}

// hazard 71: an address that answers is not given.
func TestAnAddressThatAnswersAProbeIsNotGiven(t *testing.T) {
	table := New(small(4), start)
	o := table.Offer(unknown(1), netip.Addr{}, start)
	require.True(t, table.Conflict(o.IP, mac(9), start))
	next := table.Offer(unknown(1), netip.Addr{}, start)
	require.NotEqual(t, o.IP, next.IP)
	table.Probed(next.IP)
	require.False(t, table.Offer(unknown(1), netip.Addr{}, start).Probe, "once is enough")
	require.False(t, table.Conflict(ip("192.0.2.1"), mac(9), start), "what is not on offer is not ours to judge")
	check(t, table)
}

// hazard 73: a flood of clients leaves addresses for known machines.
func TestAFloodLeavesAddressesForKnownMachines(t *testing.T) {
	s := small(80)
	s.Headroom = true
	table := New(s, start)
	var served int
	for i := range byte(200) {
		if table.Offer(Client{MAC: MAC{6, 0, 0, 0, 0, i}}, netip.Addr{}, start).Verdict == Ack {
			served++
		}
	}
	require.Equal(t, 70, served)
	for i := range byte(10) {
		c, _ := machine(i, "cluster-a")
		dora(t, table, c, start)
	}
}

func TestHeadroomGrowsWithTheMachinesThatLackAnAddress(t *testing.T) {
	s := small(20)
	s.Headroom = true
	table := New(s, start)
	var clients []Client
	for i := range byte(15) {
		c, _ := machine(i, "cluster-a")
		clients = append(clients, c)
	}
	table.Sync(directory(clients...), start)
	for i := range byte(5) {
		dora(t, table, unknown(100+i), start)
	}
	require.Equal(t, NoHeadroom, table.Offer(unknown(200), netip.Addr{}, start).Reason)
	for _, c := range clients {
		dora(t, table, c, start)
	}
}

// hazard 74: the policy for unknown clients, both ways.
func TestUnknownClientsAreServedOrIgnored(t *testing.T) {
	s := fixture()
	s.IgnoreUnknown = true
	s.Fixed = map[MAC]netip.Addr{mac(5): ip("192.0.2.50")}
	table := New(s, start)
	require.Equal(t, Answer{Reason: UnknownClient}, table.Offer(unknown(1), netip.Addr{}, start))
	require.Equal(t, Answer{Reason: UnknownClient}, table.Request(unknown(1), ip("192.0.2.100"), start))
	c, _ := machine(2, "cluster-a")
	dora(t, table, c, start)
	require.Equal(t, ip("192.0.2.50"), dora(t, table, unknown(5), start), "a reservation makes a client known")
}

func TestAReservationIsNobodyElses(t *testing.T) {
	s := fixture()
	s.Fixed = map[MAC]netip.Addr{mac(5): ip("192.0.2.120")}
	table := New(s, start)
	require.Equal(t, 99, table.Stats().Total)
	require.Equal(t, Nak, table.Request(unknown(1), ip("192.0.2.120"), start).Verdict)
	require.Equal(t, ip("192.0.2.120"), dora(t, table, unknown(5), start))
	require.Equal(t, Nak, table.Request(unknown(5), ip("192.0.2.121"), start).Verdict)
	require.Equal(t, Kept, table.Release(mac(5), ip("192.0.2.120"), start))
	require.Equal(t, Kept, table.Decline(mac(5), ip("192.0.2.120"), start))
	table.Tick(start.Add(48 * time.Hour))
	require.Len(t, table.Bindings(), 1, "it does not expire")
	check(t, table)
}

// A reservation that somebody else still has is not taken from him.
func TestAReservationWaitsForWhoHasTheAddress(t *testing.T) {
	table := New(fixture(), start)
	addr := dora(t, table, unknown(1), start)
	s := fixture()
	s.Fixed = map[MAC]netip.Addr{mac(5): addr}
	table.Configure(s, start)
	require.NotEqual(t, addr, dora(t, table, unknown(5), start))
	require.Equal(t, Ack, table.Request(unknown(1), addr, start).Verdict)
	later := start.Add(3 * time.Hour)
	require.Equal(t, addr, dora(t, table, unknown(5), later))
}

// hazards 40, 45, case C16c: the range moves; nobody who runs is moved.
func TestAMovedRangeMovesNobodyWhoRuns(t *testing.T) {
	table := New(fixture(), start)
	c, _ := machine(1, "cluster-a")
	table.Sync(directory(c), start)
	vmIP := dora(t, table, c, start)
	other := dora(t, table, unknown(2), start)
	s := fixture()
	s.Dynamic = span4("192.0.2.150", "192.0.2.199")

	moved := New(s, start)
	moved.Restore(table.Records(), start)
	moved.Sync(directory(c), start)
	require.Equal(t, vmIP, dora(t, moved, c, start))
	require.Equal(t, Ack, moved.Request(unknown(2), other, start).Verdict, "renewing goes on")
	require.Equal(t, ip("192.0.2.150"), dora(t, moved, unknown(2), start), "starting anew, it gets an address of today's range")
	moved.Tick(start.Add(1000 * time.Hour))
	require.Equal(t, vmIP, dora(t, moved, c, start.Add(1000*time.Hour)))
	check(t, moved)
}

// hazard 70, behaviour C7.
func TestThePoolLeavesOutWhatIsNotToBeGiven(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Settings)
		want int
	}{
		{"as it is", func(*Settings) {}, 100},
		{"the gateway inside", func(s *Settings) { s.Reserved = append(s.Reserved, ip("192.0.2.100")) }, 99},
		{"a load balancer's range inside", func(s *Settings) { s.Excluded = append(s.Excluded, span4("192.0.2.190", "192.0.2.205")) }, 90},
		{"ranges that overlap", func(s *Settings) {
			s.Excluded = append(s.Excluded, span4("192.0.2.110", "192.0.2.119"), span4("192.0.2.115", "192.0.2.124"))
		}, 85},
		{"everything excluded", func(s *Settings) { s.Excluded = append(s.Excluded, span4("192.0.2.0", "192.0.2.255")) }, 0},
		{"the whole network", func(s *Settings) { s.Dynamic = span4("192.0.2.0", "192.0.2.255") }, 256 - 2 - 2 - 2 - 10},
		{"one address", func(s *Settings) { s.Dynamic = span4("192.0.2.100", "192.0.2.100") }, 1},
		{"no range", func(s *Settings) { s.Dynamic = Range{} }, 0},
		{"the end of the address space", func(s *Settings) {
			s.Prefix = netip.MustParsePrefix("255.255.255.0/24")
			s.Dynamic = span4("255.255.255.250", "255.255.255.255")
		}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fixture()
			c.edit(&s)
			table := New(s, start)
			require.Equal(t, c.want, table.Stats().Total)
			for i := range c.want {
				dora(t, table, Client{MAC: MAC{4, 0, 0, 0, byte(i >> 8), byte(i)}}, start)
			}
			require.Equal(t, NoFree, table.Offer(unknown(255), netip.Addr{}, start).Reason)
		})
	}
}

// hazard 78: what was stored with a wrong clock does not last for ever, and
// what has ended while nobody was there has ended.
func TestRestoredLeasesEndInTime(t *testing.T) {
	table := New(fixture(), start)
	table.Restore([]Record{
		{IP: ip("192.0.2.100"), State: Bound, MAC: mac(1), Until: start.Add(100 * 365 * 24 * time.Hour)},
		{IP: ip("192.0.2.101"), State: Bound, MAC: mac(2), Until: start.Add(-time.Minute)},
		{IP: ip("192.0.2.102"), State: Bound, MAC: mac(3), Until: start.Add(time.Minute)},
		{IP: ip("192.0.2.102"), State: Bound, MAC: mac(4), Until: start.Add(time.Minute)},
		{IP: ip("192.0.2.103"), State: Bound, MAC: mac(4), Until: start.Add(time.Minute)},
		{IP: ip("10.0.0.1"), State: Bound, MAC: mac(5), Until: start.Add(time.Minute)},
	}, start)
	check(t, table)
	require.Equal(t, 3, table.Stats().Active, "bindings: %v", table.Bindings())
	require.Equal(t, Nak, table.Request(unknown(9), ip("192.0.2.100"), start).Verdict)
	require.Equal(t, Ack, table.Request(unknown(4), ip("192.0.2.103"), start).Verdict, "of two addresses of one client the later one counts")
	require.Equal(t, ip("192.0.2.101"), dora(t, table, unknown(2), start), "an ended lease is remembered")
	later := start.Add(2 * time.Hour)
	table.Tick(later)
	require.Equal(t, Ack, table.Request(unknown(9), ip("192.0.2.100"), later).Verdict)
}

// hazard 48: what cannot be stored is not newly given; renewals go on.
func TestWithoutStorageOnlyKnownLeasesGoOn(t *testing.T) {
	table := New(fixture(), start)
	addr := dora(t, table, unknown(1), start)
	o := table.Offer(unknown(2), netip.Addr{}, start)
	table.SetMode(Mode{Allocate: true, ReadOnly: true})
	require.Equal(t, Ack, table.Request(unknown(1), addr, start).Verdict)
	require.Equal(t, Answer{Reason: CannotStore}, table.Request(unknown(2), o.IP, start))
	require.Equal(t, Answer{Reason: CannotStore}, table.Offer(unknown(3), netip.Addr{}, start))
	check(t, table)
}

func TestABindingThatCouldNotBeStoredIsUndone(t *testing.T) {
	table := New(fixture(), start)
	o := table.Offer(unknown(2), netip.Addr{}, start)
	a := table.Request(unknown(2), o.IP, start)
	require.True(t, a.New)
	table.Revoke(a.IP, start)
	require.Empty(t, table.Bindings())
	require.Equal(t, Ack, table.Request(unknown(2), o.IP, start).Verdict, "the client may try again")
	check(t, table)
}

func TestTextFormsOfHardwareAddresses(t *testing.T) {
	for _, s := range []string{"02:00:5e:10:00:0a", "02-00-5E-10-00-0A", "2:0:5E:10:0:a"} {
		m, err := ParseMAC(s)
		require.NoError(t, err, s)
		require.Equal(t, "02:00:5e:10:00:0a", m.String())
	}
	for _, s := range []string{"", "02:00:5e:10:00", "02:00:5e:10:00:0a:0b", "02:00:5e:10:00:0g", "02:00:5e:10:00:00a", "020:0:5e:10:00:0a"} {
		_, err := ParseMAC(s)
		require.Error(t, err, s)
	}
	for m, want := range map[MAC]bool{{}: false, {255, 255, 255, 255, 255, 255}: false, {1, 0, 0x5e, 0, 0, 1}: false, mac(1): true} {
		require.Equal(t, want, m.Unicast(), "hazard 64: %s", m)
	}
}

// The index may learn of a machine after its client has an address.
func TestAClientThatTurnsOutToBeAMachineKeepsItsAddress(t *testing.T) {
	table := New(fixture(), start)
	addr := dora(t, table, unknown(1), start)
	c, vm := machine(1, "cluster-a")
	table.Sync(directory(c), start)
	require.Equal(t, []Binding{{MAC: mac(1), IP: addr, VM: vm}}, table.Bindings())
	table.Tick(start.Add(100 * time.Hour))
	require.Equal(t, addr, dora(t, table, c, start.Add(100*time.Hour)))
}

// cases C07b and C16: what machines are seen to use comes back, but a claim
// never overrides a binding.
func TestClaimsBringLostLeasesBack(t *testing.T) {
	table := New(fixture(), start)
	c, vm := machine(1, "cluster-a")
	require.True(t, table.Claim(c.MAC, vm, ip("192.0.2.101"), start))
	require.False(t, table.Claim(c.MAC, vm, ip("192.0.2.102"), start), "it has one")
	other, vm2 := machine(2, "cluster-b")
	require.False(t, table.Claim(other.MAC, vm2, ip("192.0.2.101"), start), "it is another's")
	require.False(t, table.Claim(other.MAC, vm2, ip("192.0.2.2"), start), "it is the server's")
	require.False(t, table.Claim(other.MAC, vm2, ip("192.0.2.203"), start), "it is a load balancer's")
	require.False(t, table.Claim(other.MAC, vm2, ip("10.0.0.1"), start), "it is of another network")
	require.True(t, table.Claim(other.MAC, vm2, ip("192.0.2.50"), start), "outside of today's range, but in use")
	require.Equal(t, Ack, table.Request(c, ip("192.0.2.101"), start).Verdict)
	require.Equal(t, Nak, table.Request(unknown(9), ip("192.0.2.101"), start).Verdict)
	check(t, table)
}

// The generation tells the mirror when to write: renewals must not.
func TestRenewalsDoNotChangeTheGeneration(t *testing.T) {
	table := New(fixture(), start)
	addr := dora(t, table, unknown(1), start)
	g := table.Generation()
	for i := range 10 {
		table.Request(unknown(1), addr, start.Add(time.Duration(i)*time.Minute))
		table.Offer(unknown(1), netip.Addr{}, start.Add(time.Duration(i)*time.Minute))
	}
	require.Equal(t, g, table.Generation())
	table.Release(mac(1), addr, start.Add(time.Hour))
	require.NotEqual(t, g, table.Generation())
}
