package app

import (
	"flag"
	"fmt"
	"strconv"
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

// text adds a flag. check, if there is one, says what the value has to be.
func (f flags) text(p *string, name, variable, unset, usage string, check func(string) error) {
	*p = unset
	f.add(&text{p: p, check: check}, name, variable, usage)
}

// truth adds a flag that is true or false.
func (f flags) truth(p *bool, name, variable string, unset bool, usage string) {
	*p = unset
	f.add(&truth{p}, name, variable, usage)
}

func (f flags) add(v flag.Value, name, variable, usage string) {
	f.Var(v, name, usage+" ($"+variable+")")
	f.variables[name] = variable
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
	if t.check != nil {
		if err := t.check(s); err != nil {
			return err
		}
	}
	*t.p = s
	return nil
}

// truth is the value of a flag that is true or false.
type truth struct{ p *bool }

// IsBoolFlag lets the flag stand for true where it has no value.
func (t *truth) IsBoolFlag() bool { return true }

// String implements flag.Value.
func (t *truth) String() string {
	if t.p == nil {
		return "false"
	}
	return strconv.FormatBool(*t.p)
}

// Set implements flag.Value.
func (t *truth) Set(s string) error {
	v, err := strconv.ParseBool(s)
	if err != nil {
		return errTruth
	}
	*t.p = v
	return nil
}
