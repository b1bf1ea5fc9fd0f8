// Command behaviours lists the numbers of operator/docs/behaviours.md and which
// tests name them.
//
// It reads files and judges nothing: a number that is named may still be proven
// badly, one that is not named is surely proven by nothing that says so.
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("behaviours", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "the repository")
	verbose := flags.Bool("v", false, "also list the tests of each number")
	strict := flags.Bool("strict", false, "fail when a number is named by no test")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	text, err := os.ReadFile(filepath.Join(*root, "operator", "docs", "behaviours.md"))
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	tests, err := testsBelow(os.DirFS(*root))
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	missing := report(stdout, numbers(string(text)), tests, *verbose)
	if *strict && missing > 0 {
		return 1
	}
	return 0
}

// heading is a numbered line of the document.
var heading = regexp.MustCompile(`(?m)^- \*\*([A-I]\d+)\*\* (.*)$`)

// behaviour is one numbered line.
type behaviour struct{ number, words string }

func numbers(text string) []behaviour {
	var out []behaviour
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		out = append(out, behaviour{m[1], m[2]})
	}
	return out
}

// testsBelow finds which files name which number.
func testsBelow(root fs.FS) (map[string][]string, error) {
	out := map[string][]string{}
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !isTest(path):
			return nil
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		for _, number := range named(string(content)) {
			out[number] = append(out[number], path)
		}
		return nil
	})
	return out, err
}

// isTest says whether a file is part of a test: Go tests, their data and
// whatever lies in e2e.
func isTest(path string) bool {
	return strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") ||
		strings.HasPrefix(path, "e2e/") && !strings.HasPrefix(path, "e2e/behaviours/")
}

var (
	word  = regexp.MustCompile(`(?i)behaviours?\b`)
	token = regexp.MustCompile(`\b([A-I])(\d{1,2})(?:(?:-| to )([A-I]?)(\d{1,2}))?\b`)
)

// named lists the numbers that follow the word "behaviour", up to the end of its
// comment.
func named(content string) []string {
	var out []string
	lines := strings.Split(content, "\n")
	for i, line := range lines {
		at := word.FindStringIndex(line)
		if at == nil {
			continue
		}
		passage := line[at[1]:]
		// A list that is wrapped goes on in the comment's next lines.
		for _, next := range lines[i+1:] {
			next = strings.TrimSpace(next)
			mark := strings.TrimLeft(next, "/#* ")
			if mark == next || !strings.HasSuffix(strings.TrimSpace(passage), ",") {
				break
			}
			passage += " " + mark
		}
		for _, m := range token.FindAllStringSubmatch(passage, -1) {
			out = append(out, expand(m)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// expand turns "C1-C4" into its numbers.
func expand(m []string) []string {
	first, _ := strconv.Atoi(m[2])
	last := first
	if m[4] != "" && (m[3] == "" || m[3] == m[1]) {
		last, _ = strconv.Atoi(m[4])
	}
	var out []string
	for n := first; n <= last; n++ {
		out = append(out, m[1]+strconv.Itoa(n))
	}
	return out
}

func report(out io.Writer, all []behaviour, tests map[string][]string, verbose bool) int {
	var missing []behaviour
	for _, b := range all {
		files := tests[b.number]
		if len(files) == 0 {
			missing = append(missing, b)
		}
		if verbose {
			fmt.Fprintf(out, "%-4s %s\n", b.number, strings.Join(files, " "))
		}
	}
	fmt.Fprintf(out, "%d of %d behaviours are named by a test\n", len(all)-len(missing), len(all))
	for _, b := range missing {
		fmt.Fprintf(out, "  %-4s %s\n", b.number, b.words)
	}
	return len(missing)
}
