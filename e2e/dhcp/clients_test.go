package dhcp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// leaseTime is the shortest that there is. Clients that are to rebind get more:
// some let the last eighth of a minute pass.
const (
	leaseTime  = 60 * time.Second
	rebindTime = 2 * leaseTime
)

// seat is a client in its host.
type seat struct {
	client
	machine
	host    *lab.Host
	process *lab.Process
	ip      string
}

// each runs f for every seat at once.
func each(t *testing.T, seats []*seat, f func(ctx context.Context, s *seat) error) {
	t.Helper()
	errs := make([]error, len(seats))
	var wg sync.WaitGroup
	for i, s := range seats {
		wg.Go(func() {
			if errs[i] = f(t.Context(), s); errs[i] != nil && s.process != nil {
				errs[i] = fmt.Errorf("%w\n%s said: %s", errs[i], s.client.name, s.process.Output())
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(t, err, seats[i].client.name)
	}
}

// behaviours C1, C2, C3, C8; hazards 51, 90: every client through boot,
// renewal, rebinding, and another boot with what it remembers.
func TestRealClients(t *testing.T) {
	ctx := t.Context()
	l := lab.ForTest(t)
	var seats []*seat
	var machines []machine
	for i, c := range everyClient() {
		m := machine{name: "worker-" + c.name, mac: fmt.Sprintf("02:00:5e:10:01:%02x", i)}
		seats = append(seats, &seat{client: c, machine: m})
		machines = append(machines, m)
	}
	r, err := newRig(ctx, l, t.TempDir(), int(rebindTime/time.Second), machines)
	require.NoError(t, err)

	each(t, seats, func(ctx context.Context, s *seat) error {
		var err error
		if s.host, err = l.Host(s.machine.name); err != nil {
			return err
		}
		if err := r.plug(ctx, s.host, "eth0", s.mac); err != nil {
			return err
		}
		if err := s.prepare(ctx, s.host); err != nil {
			return err
		}
		return r.boot(ctx, s)
	})
	t.Log("all have booted")

	// Past T1 (busybox: half of the lease as well): a renewal by unicast.
	each(t, seats, func(ctx context.Context, s *seat) error { return r.renewed(ctx, s, rebindTime/2+45*time.Second) })
	t.Log("all have renewed")

	// Past T2: the server cannot be reached by unicast, so they broadcast.
	each(t, seats, func(ctx context.Context, s *seat) error {
		open, err := block(ctx, s.host)
		if err != nil {
			return err
		}
		before := len(r.log(s.mac))
		if err := r.renewed(ctx, s, rebindTime+45*time.Second); err != nil {
			return err
		}
		if first := r.log(s.mac)[before]; first.kind() != "request" {
			return fmt.Errorf("began anew with %+v", first)
		}
		return open()
	})
	t.Log("all have rebound")

	each(t, seats, func(ctx context.Context, s *seat) error {
		if s.reboot == nil {
			return nil
		}
		before := len(r.log(s.mac))
		if err := s.reboot(ctx, s.host, s.process); err != nil {
			return err
		}
		old := s.ip
		if err := r.boot(ctx, s); err != nil {
			return err
		}
		if s.ip != old {
			return fmt.Errorf("had %s and has %s", old, s.ip)
		}
		if log := r.log(s.mac); len(log) <= before || s.asks != "" && log[before].kind() != s.asks {
			return fmt.Errorf("began with %+v, not with a %s", log[before:], s.asks)
		}
		return nil
	})
	t.Log("all have booted again")

	each(t, seats, func(ctx context.Context, s *seat) error {
		if s.release == nil {
			return nil
		}
		if err := s.release(ctx, s.host, s.process); err != nil {
			return err
		}
		if err := waitFor(ctx, time.Minute, "a RELEASE", func() bool {
			for _, e := range r.log(s.mac) {
				if e.Type == "release" {
					return true
				}
			}
			return false
		}, s.process.Output); err != nil {
			return err
		}
		ip, err := r.bound(ctx, s.mac)
		if err != nil || ip != s.ip {
			return fmt.Errorf("a machine keeps its address over a RELEASE: %s, now %s (%w)", s.ip, ip, err)
		}
		return nil
	})
	t.Log("those that release have released")
}

// boot starts a client and waits until it has the address of its lease.
func (r *rig) boot(ctx context.Context, s *seat) error {
	var err error
	if s.process, err = s.start(s.host); err != nil {
		return err
	}
	if err := lab.Until(ctx, 2*time.Minute, "an address", func(ctx context.Context) error {
		if s.ip, err = address(ctx, s.host); err != nil {
			return err
		}
		bound, err := r.bound(ctx, s.mac)
		if err == nil && bound != s.ip {
			err = fmt.Errorf("has %s and is bound to %s", s.ip, bound)
		}
		return err
	}); err != nil {
		return err
	}
	// behaviour C2, hazard 8: its name, byte for byte, whatever it called itself.
	if err := lab.Until(ctx, time.Minute, "the host name", func(ctx context.Context) error {
		name, err := s.host.Run(ctx, "/bin/sh", "-c", s.hostName)
		if name = strings.TrimSpace(name); err == nil && name != s.machine.name {
			err = fmt.Errorf("is called %q", name)
		}
		return err
	}); err != nil {
		return err
	}
	rows, err := r.leases(ctx)
	for _, x := range rows {
		if x.MACAddress == s.mac && x.VM != namespace+"/"+s.machine.name {
			return fmt.Errorf("the lease is of %q", x.VM)
		}
	}
	return err
}

// renewed waits for one more ACK, and for the address to be the same then.
func (r *rig) renewed(ctx context.Context, s *seat, limit time.Duration) error {
	before := r.acks(s.mac)
	if err := waitFor(ctx, limit, "a renewal", func() bool { return r.acks(s.mac) > before }, s.process.Output); err != nil {
		return err
	}
	// With so short a lease a client may miss the few seconds of rebinding and
	// begin anew: for a moment it has no address then.
	return lab.Until(ctx, time.Minute, "the address", func(ctx context.Context) error {
		ip, err := address(ctx, s.host)
		if err == nil && ip != s.ip {
			err = fmt.Errorf("had %s and has %s", s.ip, ip)
		}
		return err
	})
}
