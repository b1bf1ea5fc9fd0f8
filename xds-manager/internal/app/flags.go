package app

import (
	"flag"
	"fmt"
	"time"
)

// flags are those of a command. Each has a variable, which counts where the flag
// is not given. A value that cannot be right is refused in either.
type flags struct {
	*flag.FlagSet
	variables map[string]string // by flag
}

func newFlags(name string) flags {
	return flags{flag.NewFlagSet(name, flag.ContinueOnError), map[string]string{}}
}

// text adds a flag. check, if there is one, says what the value has to be; an
// empty one is none then.
func (f flags) text(p *string, name, variable, unset, usage string, check func(string) error) {
	*p = unset
	f.add(&text{p: p, unset: unset, check: check}, name, variable, usage)
}

func (f flags) add(v flag.Value, name, variable, usage string) {
	f.Var(v, name, usage+" ($"+variable+")")
	f.variables[name] = variable
}

// duration adds a flag that is a time of shortest at least.
func (f flags) duration(p *time.Duration, name, variable string, unset, shortest time.Duration, usage string) {
	*p = unset
	f.add(&duration{p: p, shortest: shortest}, name, variable, usage)
}

// environment reads the variables of the flags that were not given. An empty one
// is none.
func (f flags) environment(lookup func(string) (string, bool)) (err error) {
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	f.VisitAll(func(g *flag.Flag) {
		variable := f.variables[g.Name]
		v, ok := lookup(variable)
		if variable == "" || !ok || v == "" || given[g.Name] || err != nil {
			return
		}
		if wrong := g.Value.Set(v); wrong != nil {
			err = fmt.Errorf("invalid value %q for $%s: %w", v, variable, wrong)
		}
	})
	return err
}

// text is the value of a flag.
type text struct {
	p     *string
	unset string
	check func(string) error
}

// String implements flag.Value.
func (t *text) String() string {
	if t.p == nil {
		return ""
	}
	return *t.p
}

// Set implements flag.Value.
func (t *text) Set(s string) error {
	if t.check != nil && s == "" {
		s = t.unset
	} else if t.check != nil {
		if err := t.check(s); err != nil {
			return err
		}
	}
	*t.p = s
	return nil
}

// duration is the value of a flag.
type duration struct {
	p        *time.Duration
	shortest time.Duration
}

// String implements flag.Value.
func (d *duration) String() string {
	if d.p == nil {
		return ""
	}
	return d.p.String()
}

// Set implements flag.Value.
func (d *duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v < d.shortest || v > longest {
		return fmt.Errorf("want a time from %s to %s, such as 30s or 5m", d.shortest, longest)
	}
	*d.p = v
	return nil
}
