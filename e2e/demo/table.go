package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/densityops/oooi/e2e/demo/check"
	"github.com/densityops/oooi/e2e/demo/world"
)

// column is one subject: the table heads it with two lines.
type column struct {
	subject, above, below string
	width                 int
}

func columns(w *world.World) []column {
	var out []column
	for _, vm := range w.VMs {
		out = append(out, column{subject: vm.Name, above: vm.Cluster.Name, below: ".." + vm.Name[strings.LastIndexByte(vm.Name, '-'):]})
	}
	out = append(out,
		column{subject: check.Stranger, above: "stranger", below: "on the VLAN"},
		column{subject: check.Hub, above: "pod of the", below: "hub"},
		column{subject: check.World},
	)
	for i := range out {
		out[i].width = max(len(out[i].above), len(out[i].below), len("ok 1234 ms"))
	}
	return out
}

// report prints the table, one line a check and one column a subject, and then
// what failed. The error counts the failures.
func report(out io.Writer, w *world.World, results []check.Result, took time.Duration) error {
	cells := map[string]map[string]string{}
	var names []string
	var failures []check.Result
	for _, r := range results {
		if cells[r.Check] == nil {
			cells[r.Check] = map[string]string{}
			names = append(names, r.Check)
		}
		cell := fmt.Sprintf("ok %4d ms", r.Took.Milliseconds())
		if r.Err != nil {
			cell = "FAILED"
			failures = append(failures, r)
		}
		cells[r.Check][r.Subject] = cell
	}
	first := 0
	for _, name := range names {
		first = max(first, len(name))
	}
	all := columns(w)
	line := func(name string, cell func(column) string) {
		var b strings.Builder
		fmt.Fprintf(&b, "%-*s", first, name)
		for _, c := range all {
			fmt.Fprintf(&b, "  %-*s", c.width, cell(c))
		}
		fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	}
	fmt.Fprintln(out)
	line("", func(c column) string { return c.above })
	line("worker VMs of", func(c column) string { return c.below })
	for _, name := range names {
		line(name, func(c column) string { return cells[name][c.subject] })
	}
	fmt.Fprintf(out, "\n%d checks, %d failed, %.1f s\n", len(results), len(failures), took.Seconds())
	for _, f := range failures {
		fmt.Fprintf(out, "\nFAILED  %s  (%s)\n%s", f.Check, f.Subject, indented(f.Err.Error()))
	}
	if len(failures) > 0 {
		return fmt.Errorf("%d of %d checks failed", len(failures), len(results))
	}
	return nil
}

// indented is the start of a failure's words, enough to begin with.
func indented(words string) string {
	const most = 6
	lines := strings.Split(words, "\n")
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("... and %d lines more", len(lines)-most))
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}
