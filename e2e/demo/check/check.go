package check

import (
	"context"
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
}

// Result is one cell of the table.
type Result struct {
	Check   string
	Subject string
	Err     error
	Took    time.Duration
}

// Subjects are the table's columns for a world.
func Subjects(w *world.World) []string {
	var out []string
	for _, vm := range w.VMs {
		out = append(out, vm.Name)
	}
	return append(out, "stranger", "hub pod", "all")
}

// All runs every check for every subject and tells done of each result.
func All(ctx context.Context, w *world.World, done func(Result)) {
	for _, c := range list() {
		c.run(ctx, w, done)
	}
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
			timed(vm.Name, func() error { return c.VM(ctx, w, vm) })
		}
	}
	if c.Stranger != nil {
		timed("stranger", func() error { return c.Stranger(ctx, w) })
	}
	if c.Hub != nil {
		timed("hub pod", func() error { return c.Hub(ctx, w) })
	}
	if c.World != nil {
		timed("all", func() error { return c.World(ctx, w) })
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
