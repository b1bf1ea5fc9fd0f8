package lease

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clustered is a table as it is in a cluster.
func clustered(s Settings) *Table {
	t := New(s, start)
	t.SetMode(Mode{Allocate: true, Blocks: true})
	return t
}

// behaviour C5: nothing is given that is not known to be written down.
func TestNothingIsGivenBeforeItIsWrittenDown(t *testing.T) {
	table := clustered(fixture())
	require.Equal(t, NotSetAside, table.Offer(unknown(1), netip.Addr{}, start).Reason)
	blocks := table.SetAside(start)
	require.Equal(t, []Range{span4("192.0.2.100", "192.0.2.111")}, blocks, "an eighth of 100")
	require.Equal(t, NotSetAside, table.Offer(unknown(1), netip.Addr{}, start).Reason, "written is not yet confirmed")
	table.Confirm(blocks)
	require.Equal(t, ip("192.0.2.100"), dora(t, table, unknown(1), start))
	require.Equal(t, []Range{span4("192.0.2.101", "192.0.2.111")}, table.Blocks(), "a binding is named as such, not in the block")
	check(t, table)
}

func TestABlockHasAtMost64Addresses(t *testing.T) {
	s := fixture()
	s.Prefix = netip.MustParsePrefix("10.0.0.0/8")
	s.Dynamic = span4("10.0.0.1", "10.1.0.0")
	table := clustered(s)
	b := table.SetAside(start)
	require.Equal(t, []Range{span4("10.0.0.1", "10.0.0.64")}, b)
}

func TestAUsedUpBlockServesNobodyNewAndEverybodyKnown(t *testing.T) {
	table := clustered(fixture())
	table.Confirm(table.SetAside(start))
	var addrs []netip.Addr
	for i := range byte(12) {
		addrs = append(addrs, dora(t, table, unknown(i), start))
	}
	require.True(t, table.Low())
	require.Equal(t, NotSetAside, table.Offer(unknown(50), netip.Addr{}, start).Reason)
	for i, a := range addrs {
		require.Equal(t, Ack, table.Request(unknown(byte(i)), a, start.Add(time.Minute)).Verdict)
	}
	table.Confirm(table.SetAside(start))
	dora(t, table, unknown(50), start)
}

// An address that a client says it has is set aside first, and then given.
func TestAnAddressThatAClientAsksForIsSetAsideFirst(t *testing.T) {
	table := clustered(fixture())
	table.Confirm(table.SetAside(start))
	want := ip("192.0.2.177")
	require.Equal(t, Answer{Reason: NotSetAside}, table.Request(unknown(1), want, start), "silence, never a NAK")
	require.True(t, table.Low())
	table.Confirm(table.SetAside(start))
	require.Equal(t, Ack, table.Request(unknown(1), want, start).Verdict)
	check(t, table)
}

// behaviour C5: a predecessor's block rests for one lease time, and whoever
// has one of its addresses keeps it.
func TestAPredecessorsBlockRests(t *testing.T) {
	s := small(8)
	table := New(s, start)
	table.Rest([]Range{span4("192.0.2.100", "192.0.2.106")}, start)
	require.Equal(t, ip("192.0.2.107"), dora(t, table, unknown(1), start))
	require.Equal(t, NoFree, table.Offer(unknown(2), ip("192.0.2.103"), start).Reason, "offered to nobody, not even on request")
	probe := table.Request(unknown(3), ip("192.0.2.103"), start)
	require.True(t, probe.Probe, "who renews has it, unless another station answers for it")
	require.True(t, table.Conflict(probe.IP, mac(9), start))
	require.True(t, table.Request(unknown(3), ip("192.0.2.103"), start).Probe)
	table.Probed(ip("192.0.2.103"))
	require.Equal(t, Ack, table.Request(unknown(3), ip("192.0.2.103"), start).Verdict)
	require.Equal(t, Nak, table.Request(unknown(4), ip("192.0.2.103"), start).Verdict)
	again := New(s, start)
	again.Restore(table.Records(), start)
	require.Equal(t, NoFree, again.Offer(unknown(2), netip.Addr{}, start).Reason, "it rests over a restart")
	require.Equal(t, []Range{span4("192.0.2.100", "192.0.2.102"), span4("192.0.2.104", "192.0.2.106")}, again.Blocks(), "and goes on being named")
	o := table.Offer(unknown(2), ip("192.0.2.104"), start.Add(time.Hour))
	require.Equal(t, Ack, o.Verdict)
	require.True(t, o.Probe, "it may have been given, so it is probed")
	check(t, table)
}

// behaviours C5, C6: what cools down as nobody's is named too, so that a
// successor lets it rest.
func TestAnAddressThatCoolsDownAsNobodysIsNamed(t *testing.T) {
	table := clustered(fixture())
	table.Confirm(table.SetAside(start))
	c, vm := machine(1, "cluster-a")
	table.Sync(directory(c), start)
	addr := dora(t, table, c, start)
	fixed := fixture()
	fixed.Fixed = map[MAC]netip.Addr{c.MAC: ip("192.0.2.50")}
	table.Configure(fixed, start)
	require.Equal(t, ip("192.0.2.50"), dora(t, table, c, start))
	require.Equal(t, []Binding{{MAC: c.MAC, IP: ip("192.0.2.50"), VM: vm}}, table.Bindings())
	require.True(t, within(table.Blocks(), addr))
}

// Who answered a probe keeps the address over a restart too.
func TestTheStationThatAnsweredAProbeIsRemembered(t *testing.T) {
	table := New(small(4), start)
	o := table.Offer(unknown(1), netip.Addr{}, start)
	require.True(t, table.Conflict(o.IP, mac(9), start))
	again := New(small(4), start)
	again.Restore(table.Records(), start)
	require.Equal(t, Nak, again.Request(unknown(8), o.IP, start).Verdict)
	require.Equal(t, Ack, again.Request(Client{MAC: mac(9)}, o.IP, start).Verdict)
	check(t, again)
}

// A restarted container whose journal is whole goes on with its own block.
func TestAnOwnBlockIsReclaimed(t *testing.T) {
	table := clustered(fixture())
	table.Confirm(table.SetAside(start))
	addr := dora(t, table, unknown(1), start)
	blocks := table.Blocks()
	again := clustered(fixture())
	again.Restore(table.Records(), start)
	again.Reclaim(append(blocks, span4("192.0.2.100", "192.0.2.100")))
	require.Equal(t, addr, dora(t, again, unknown(1), start))
	require.Equal(t, ip("192.0.2.101"), dora(t, again, unknown(2), start))
}

// behaviour C5: a clean stop names no block.
func TestACleanStopNamesNoBlock(t *testing.T) {
	table := clustered(fixture())
	table.Confirm(table.SetAside(start))
	table.Offer(unknown(1), netip.Addr{}, start)
	table.SetMode(Mode{Blocks: true})
	table.Relinquish()
	require.Empty(t, table.Blocks())
	check(t, table)
}

// behaviour C6: without the Lease nothing is allocated, and what is known is
// renewed.
func TestWithoutTheLeaseOnlyKnownLeasesAreRenewed(t *testing.T) {
	table := New(fixture(), start)
	addr := dora(t, table, unknown(1), start)
	o := table.Offer(unknown(2), netip.Addr{}, start)
	table.SetMode(Mode{})
	require.Equal(t, Ack, table.Request(unknown(1), addr, start).Verdict)
	require.Equal(t, Answer{Reason: NotAllocating}, table.Request(unknown(2), o.IP, start), "an offer of before is not taken up")
	require.Equal(t, Answer{Reason: NotAllocating}, table.Request(unknown(3), ip("192.0.2.150"), start), "silence, never a NAK: the holder may know")
	require.Equal(t, Answer{Reason: NotAllocating}, table.Offer(unknown(3), netip.Addr{}, start))
	require.Equal(t, Ack, table.Offer(unknown(1), netip.Addr{}, start).Verdict, "who has an address is told again")
}

// hazard 73 within a block: the last quarter is for known machines.
func TestTheLastOfABlockIsForKnownMachines(t *testing.T) {
	s := fixture()
	s.Headroom = true
	table := clustered(s)
	table.Confirm(table.SetAside(start))
	served := 0
	for i := range byte(12) {
		if table.Offer(unknown(i), netip.Addr{}, start).Verdict == Ack {
			served++
		}
	}
	require.Less(t, served, 12)
	c, _ := machine(50, "cluster-a")
	dora(t, table, c, start)
}

// A flood of DISCOVERs must not make the status name the whole pool.
func TestAFloodDoesNotSetThePoolAside(t *testing.T) {
	s := fixture()
	s.Prefix = netip.MustParsePrefix("10.0.0.0/8")
	s.Dynamic = span4("10.0.0.1", "10.1.0.0")
	table := clustered(s)
	for i := range 5000 {
		table.Offer(Client{MAC: MAC{6, 0, 0, 0, byte(i >> 8), byte(i)}}, netip.Addr{}, start)
		if table.Low() {
			table.Confirm(table.SetAside(start))
		}
	}
	named := 0
	for _, r := range table.Blocks() {
		named += int(number(r.Last)-number(r.First)) + 1
	}
	require.LessOrEqual(t, named, 6*MaxBlock)
	table.Tick(start.Add(2 * OfferTime))
	named = 0
	for _, r := range table.Blocks() {
		named += int(number(r.Last)-number(r.First)) + 1
	}
	require.LessOrEqual(t, named, MaxBlock, "offers that lapse do not pile up in the block")
	check(t, table)
}

// What a successor has written counts more than what is recorded here.
func TestMergeTakesTheStatusOver(t *testing.T) {
	table := New(fixture(), start)
	mine := dora(t, table, unknown(1), start)
	_, vm := machine(7, "cluster-a")
	table.Merge([]Binding{
		{MAC: mac(2), IP: mine},
		{MAC: mac(7), IP: ip("192.0.2.150"), VM: VM{Namespace: vm.Namespace, Name: vm.Name}},
		{MAC: mac(8), IP: ip("203.0.113.9")},
		{MAC: MAC{}, IP: ip("192.0.2.151")},
	}, start)
	check(t, table)
	require.Equal(t, Nak, table.Request(unknown(1), mine, start).Verdict)
	require.Equal(t, Ack, table.Request(unknown(2), mine, start).Verdict)
	require.Equal(t, ip("192.0.2.150"), dora(t, table, Client{MAC: mac(7), VMs: []VM{vm}}, start))
	require.Equal(t, vm, table.Offer(Client{MAC: mac(7), VMs: []VM{vm}}, netip.Addr{}, start).VM)
	require.Equal(t, 2, table.Stats().Active)
	table.Tick(start.Add(100 * time.Hour))
	require.Equal(t, 1, table.Stats().Active, "the machine's stays until it is known to be gone")
	before := table.Bindings()
	table.Merge(before, start.Add(100*time.Hour))
	require.Equal(t, before, table.Bindings(), "taking over twice changes nothing")
}
