package check

import (
	"context"
	"errors"
	"time"

	"github.com/densityops/oooi/e2e/demo/world"
	"github.com/densityops/oooi/e2e/lab"
)

// Check is one line of the demo's table.
type Check struct {
	// Name says what is right.
	Name string
	// VM, Stranger, Hub and World are what is done by whom; nil = not asked of them.
	VM       func(context.Context, *world.World, *world.VM) error
	Stranger func(context.Context, *world.World) error
	Hub      func(context.Context, *world.World) error
	World    func(context.Context, *world.World) error
	// Took replaces the time of a VM's check, where the thing itself lies behind.
	Took func(*world.VM) time.Duration
}

// Result is one cell of the table.
type Result struct {
	Check   string
	Subject string
	Err     error
	Took    time.Duration
}

// Those who are no worker.
const (
	Stranger = "stranger"
	Hub      = "hub pod"
	World    = "all"
)

// All runs every check for every subject. begin is told of a check before it
// runs; what it returns is called with the check's failures.
func All(ctx context.Context, w *world.World, begin func(name string) func(error)) []Result {
	var results []Result
	for _, c := range list() {
		if ctx.Err() != nil {
			break
		}
		end := begin(c.Name)
		var failed []error
		c.run(ctx, w, func(r Result) {
			results = append(results, r)
			failed = append(failed, r.Err)
		})
		end(errors.Join(failed...))
	}
	return results
}

// list is every check in the order of the table.
func list() []Check {
	var out []Check
	out = append(out, bootChecks()...)
	out = append(out, nameChecks()...)
	out = append(out, reachChecks()...)
	out = append(out, closedChecks()...)
	return append(out, scanChecks()...)
}

func (c Check) run(ctx context.Context, w *world.World, done func(Result)) {
	timed := func(subject string, do func() error) {
		begin := time.Now()
		err := do()
		done(Result{Check: c.Name, Subject: subject, Err: err, Took: time.Since(begin)})
	}
	if c.VM != nil {
		for _, vm := range w.VMs {
			begin := time.Now()
			err := c.VM(ctx, w, vm)
			took := time.Since(begin)
			if c.Took != nil {
				took = c.Took(vm)
			}
			done(Result{Check: c.Name, Subject: vm.Name, Err: err, Took: took})
		}
	}
	if c.Stranger != nil {
		timed(Stranger, func() error { return c.Stranger(ctx, w) })
	}
	if c.Hub != nil {
		timed(Hub, func() error { return c.Hub(ctx, w) })
	}
	if c.World != nil {
		timed(World, func() error { return c.World(ctx, w) })
	}
}

// onVLAN asks the same of a VM and of the stranger.
func onVLAN(name string, do func(context.Context, *world.World, *lab.Host) error) Check {
	return Check{
		Name:     name,
		VM:       func(ctx context.Context, w *world.World, vm *world.VM) error { return do(ctx, w, vm.Host) },
		Stranger: func(ctx context.Context, w *world.World) error { return do(ctx, w, w.Stranger) },
	}
}
