package app

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/report"
	"github.com/densityops/oooi/dhcpd/internal/server"
	"github.com/densityops/oooi/dhcpd/internal/version"
)

// maxBindings is how many bindings the status holds: 4,096 of them are some
// 600 KiB, well below what an object may be.
const maxBindings = 4096

// The other limits of the resource's schema.
const (
	maxBlocks   = 256
	maxProblems = 256
	maxMessage  = 2048
)

// agent makes the status. The caller must be inside of srv.Do.
func (a *App) agent(t *lease.Table, problems []report.Problem, bindings []report.Binding) report.Agent {
	cfg := a.cfg.Load()
	s := t.Stats()
	return report.Agent{
		ObservedVersion:    cfg.Version,
		ObservedGeneration: cfg.Child.Generation,
		ModuleVersion:      version.Module,
		Contract:           version.Contract,
		Problems:           problems,
		Holder:             a.holder,
		Pool: &report.Pool{
			Total: s.Total, Active: s.Active, Free: s.Free, Declined: s.Declined, Conflicts: s.Conflicts,
			ActiveOfTotal: fmt.Sprintf("%d/%d", s.Active, s.Total),
		},
		Bindings: bindings,
	}
}

// reported is the list of problems as the status has it.
func (a *App) reported(srv *server.Server) []report.Problem {
	var out []report.Problem
	for _, p := range a.problems(srv) {
		if len(out) == maxProblems {
			break
		}
		if len(p.Message) > maxMessage {
			p.Message = strings.ToValidUTF8(p.Message[:maxMessage-len("...")], "") + "..."
		}
		out = append(out, report.Problem(p))
	}
	return out
}

func toBindings(in []lease.Binding) []report.Binding {
	in = in[:min(len(in), maxBindings)]
	out := make([]report.Binding, 0, len(in))
	for _, b := range in {
		out = append(out, report.Binding{MACAddress: b.MAC.String(), IP: b.IP.String(), VMNamespace: b.VM.Namespace, VMName: b.VM.Name})
	}
	return out
}

// bindings reads the status' list; what cannot be read is left out.
func bindings(in []report.Binding) []lease.Binding {
	var out []lease.Binding
	for _, b := range in {
		mac, err := lease.ParseMAC(b.MACAddress)
		ip, err2 := netip.ParseAddr(b.IP)
		if err == nil && err2 == nil && ip.Is4() {
			out = append(out, lease.Binding{MAC: mac, IP: ip, VM: lease.VM{Namespace: b.VMNamespace, Name: b.VMName}})
		}
	}
	return out
}

// toBlocks names the ranges. If they are too many, neighbours are joined: what
// lies between is then named too, which is safe.
func toBlocks(in []lease.Range) []report.Block {
	var out []report.Block
	for _, r := range join(in, maxBlocks) {
		out = append(out, report.Block{Start: r.First.String(), End: r.Last.String()})
	}
	return out
}

func ranges(in []report.Block) []lease.Range {
	var out []lease.Range
	for _, b := range in {
		first, err := netip.ParseAddr(b.Start)
		last, err2 := netip.ParseAddr(b.End)
		if err == nil && err2 == nil && first.Is4() && last.Is4() && !last.Less(first) {
			out = append(out, lease.Range{First: first, Last: last})
		}
	}
	return out
}

// join joins the closest ranges until at most n are left.
func join(in []lease.Range, n int) []lease.Range {
	out := slices.Clone(in)
	for len(out) > n {
		best, gap := 0, uint32(math.MaxUint32)
		for i := range len(out) - 1 {
			if g := distance(out[i].Last, out[i+1].First); g < gap {
				best, gap = i, g
			}
		}
		out[best].Last = out[best+1].Last
		out = slices.Delete(out, best+1, best+2)
	}
	return out
}

func distance(a, b netip.Addr) uint32 {
	x, y := a.As4(), b.As4()
	return binary.BigEndian.Uint32(y[:]) - binary.BigEndian.Uint32(x[:])
}

// allowClaims lets machines' own reports count from now on.
func (a *App) allowClaims(srv *server.Server) {
	a.claims.Store(true)
	if x := a.index.Load(); x != nil {
		a.claim(srv, x)
	}
}

func (a *App) forbidClaims() { a.claims.Store(false) }
