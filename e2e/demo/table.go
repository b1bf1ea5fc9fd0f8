package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/densityops/oooi/e2e/demo/check"
	"github.com/densityops/oooi/e2e/demo/world"
)

// report prints the table, one line a check and one column a subject, and then
// what failed. The error counts the failures.
func report(out io.Writer, w *world.World, results []check.Result, took time.Duration) error {
	subjects := check.Subjects(w)
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
	first := width(names)
	fmt.Fprintln(out)
	line := func(name string, cell func(subject string) string) {
		var b strings.Builder
		fmt.Fprintf(&b, "%-*s", first, name)
		for _, s := range subjects {
			fmt.Fprintf(&b, "  %-*s", columnWidth(s), cell(s))
		}
		fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	}
	line("", func(subject string) string { return subject })
	for _, name := range names {
		line(name, func(subject string) string { return cells[name][subject] })
	}
	fmt.Fprintf(out, "\n%d checks, %d failed, %.1f s\n", len(results), len(failures), took.Seconds())
	for _, f := range failures {
		fmt.Fprintf(out, "\nFAILED  %s  (%s)\n  %s\n", f.Check, f.Subject, strings.ReplaceAll(f.Err.Error(), "\n", "\n  "))
	}
	if len(failures) > 0 {
		return fmt.Errorf("%d of %d checks failed", len(failures), len(results))
	}
	return nil
}

func width(names []string) int {
	n := 0
	for _, name := range names {
		n = max(n, len(name))
	}
	return n
}

// columnWidth holds a subject's name and a cell such as "ok 1234 ms".
func columnWidth(subject string) int { return max(len(subject), len("ok 1234 ms")) }
