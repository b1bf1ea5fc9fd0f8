package app

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/report"
)

// machines is a directory of one namespace that was read.
type machines map[lease.MAC]lease.VM

func (d machines) Len() int { return len(d) }

func (d machines) VMs(m lease.MAC) []lease.VM {
	if vm, ok := d[m]; ok {
		return []lease.VM{vm}
	}
	return nil
}

func (d machines) Exists(vm lease.VM) lease.Existence {
	for _, x := range d {
		if x.Namespace == vm.Namespace && x.Name == vm.Name {
			return lease.Exists
		}
	}
	return lease.Gone
}

// behaviours C3, C5: a machine that was deleted while its server's node was lost
// gives its address back, and one that is there keeps its own, although no further
// news of machines comes after what the status says was taken over.
func TestWhatTheStatusSaysIsComparedWithTheMachines(t *testing.T) {
	b := newBench(t)
	p := b.pod("")
	stays := lease.VM{Namespace: "a", Name: "stays", Interface: "one"}
	p.srv.SetDirectory(machines{mac(1): stays, mac(2): {Namespace: "a", Name: "stays", Interface: "two"}}, nil)
	b.c.agent = report.Agent{Holder: "pod-0", Bindings: []report.Binding{
		{MACAddress: mac(1).String(), IP: "192.0.2.110", VMNamespace: "a", VMName: "stays"},
		{MACAddress: mac(9).String(), IP: "192.0.2.111", VMNamespace: "a", VMName: "gone"},
	}}
	b.pass(3*time.Second, p)
	require.Equal(t, "pod-1", b.c.agent.Holder)
	p.srv.Do(func(table *lease.Table, now time.Time) {
		second := lease.Client{MAC: mac(2), VMs: p.srv.Directory().VMs(mac(2))}
		require.NotEqual(t, "192.0.2.110", table.Offer(second, netip.Addr{}, now).IP.String(), "another interface of the machine is another client")
	})
	b.pass(b.cfg.Lease.LeaseTime, p)
	require.Len(t, b.c.agent.Bindings, 2, "its lease may not have ended, or it rests")
	b.pass(b.cfg.Lease.LeaseTime+time.Minute, p)
	require.Equal(t, []report.Binding{{MACAddress: mac(1).String(), IP: "192.0.2.110", VMNamespace: "a", VMName: "stays"}}, b.c.agent.Bindings)
}

// behaviours C5, C6, hazard 35: in a full pool a new machine gets what its own cluster
// has left, at its second DISCOVER, and keeps it when pod and disk are lost.
func TestANewMachineGetsWhatItsClusterHasLeft(t *testing.T) {
	b := newBench(t)
	b.cfg.Lease.Dynamic.Last = b.cfg.Lease.Dynamic.First
	p := b.pod("")
	vm := func(n int, name string) lease.Client {
		return lease.Client{MAC: mac(n), VMs: []lease.VM{{Namespace: "a", Name: name, Interface: "net"}}}
	}
	dora := func(p *pod, c lease.Client) (a lease.Answer) {
		p.srv.Do(func(t *lease.Table, now time.Time) {
			if a = t.Offer(c, netip.Addr{}, now); a.Verdict == lease.Ack {
				a = t.Request(c, a.IP, now)
			}
		})
		return a
	}
	before, after := vm(1, "before"), vm(2, "after")
	p.srv.SetDirectory(machines{mac(1): before.VMs[0]}, nil)
	b.pass(3*time.Second, p)
	has := dora(p, before).IP
	p.srv.SetDirectory(machines{mac(2): after.VMs[0]}, nil)
	b.pass(b.cfg.Lease.LeaseTime+time.Second, p)
	require.Equal(t, lease.NotSetAside, dora(p, after).Reason)
	b.pass(time.Second, p)
	require.Equal(t, []report.Block{{Start: has.String(), End: has.String()}}, b.c.agent.Blocks)
	require.Equal(t, has, dora(p, after).IP)

	next := b.pod("") // before that was mirrored
	next.srv.SetDirectory(machines{mac(2): after.VMs[0]}, nil)
	b.pass(time.Minute, next)
	require.Equal(t, "pod-2", b.c.agent.Holder)
	var a lease.Answer
	next.srv.Do(func(t *lease.Table, now time.Time) { a = t.Request(after, has, now) })
	require.Equal(t, lease.Ack, a.Verdict)
}
