package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/server"
	"github.com/densityops/oooi/dhcpd/internal/vmi"
)

// liveTime is how long the loop may stand still before the process is better
// started anew.
const liveTime = 30 * time.Second

func (a *App) handler() http.Handler {
	m := http.NewServeMux()
	m.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.Registry, promhttp.HandlerOpts{}))
	m.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { answer(w, a.live()) })
	m.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { answer(w, a.ready()) })
	return m
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// live says whether the loop turns.
func (a *App) live() error {
	last := a.ticked.Load()
	if age := a.now().Sub(time.Unix(0, last)); last != 0 && age > liveTime {
		return fmt.Errorf("loop has stood still for %s", age.Round(time.Second))
	}
	return nil
}

// ready says whether a snapshot is in force and the port is open. The operator
// need not be reachable.
func (a *App) ready() error {
	switch srv := a.server.Load(); {
	case srv == nil:
		return fmt.Errorf("no snapshot yet")
	case !srv.Serving():
		return fmt.Errorf("no device has %s", a.cfg.Load().ServerIP)
	}
	return nil
}

// problems is all that a person should know, sorted.
func (a *App) problems(srv *server.Server) []config.Problem {
	cfg := a.cfg.Load()
	out := append(slices.Clone(cfg.Problems), srv.Problems()...)
	if !a.opts.Fence {
		out = append(out, forwarding(srv.Device())...)
	}
	if d := srv.Device(); d.MTU != 0 && int(cfg.MTU) > d.MTU {
		out = append(out, config.Problem{Reason: "MTUMismatch", Message: fmt.Sprintf("option 26 says %d but our own device takes %d bytes; the smaller is sent", cfg.MTU, d.MTU)})
	}
	if x := a.index.Load(); x != nil {
		out = append(out, machineProblems(x)...)
	}
	slices.SortFunc(out, func(x, y config.Problem) int {
		return strings.Compare(x.Reason+"\n"+x.Message, y.Reason+"\n"+y.Message)
	})
	return slices.Compact(out)
}

func machineProblems(x *vmi.Index) []config.Problem {
	var out []config.Problem
	if d := x.Duplicates(); len(d) > 0 {
		out = append(out, config.Problem{Reason: "DuplicateMAC", Message: "machines on this network share a hardware address: " + strings.Join(d, "; ")})
	}
	if l := x.Unreadable(); len(l) > 0 {
		out = append(out, config.Problem{Reason: "MachinesUnreadable", Message: "of these files what they said last counts: " + strings.Join(l, "; ")})
	}
	if l := x.LongNames(); len(l) > 0 {
		out = append(out, config.Problem{Reason: "HostNameTooLong", Message: "these names are longer than 63 bytes, so no host name is sent: " + strings.Join(l, ", ")})
	}
	return out
}

// measure brings the polled metrics up to date.
func (a *App) measure(srv *server.Server) {
	var s lease.Stats
	var m lease.Mode
	srv.Do(func(t *lease.Table, _ time.Time) { s, m = t.Stats(), t.Mode() })
	a.metrics.Update(s, m.Allocate && !m.ReadOnly, a.feed.Connected(), a.problems(srv))
}

// adopt takes over what is newly known about machines.
func (a *App) adopt(srv *server.Server, x *vmi.Index) {
	srv.SetDirectory(x, x.MACs())
	if a.claims.Load() {
		a.claim(srv, x)
	}
}

// claim gives machines the addresses that they are seen to use and that
// nothing is recorded of: that is how leases come back whose records were
// lost.
func (a *App) claim(srv *server.Server, x *vmi.Index) {
	srv.Do(func(t *lease.Table, now time.Time) {
		for _, c := range x.Claims() {
			if t.Claim(c.MAC, c.VM, c.IP, now) {
				a.log.Info("lease taken over from the machine's own report", "mac", c.MAC.String(), "ip", c.IP.String(), "vm", c.VM.String())
			}
		}
	})
}
