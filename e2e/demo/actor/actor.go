package actor

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Name is the first argument that makes the demo's binary an actor.
const Name = "actor"

// Main runs the actor that args name and returns its exit code. What it is to do
// comes as JSON on stdin.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := run(args, stdin, stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("one of serve, resolve, probe, scan is wanted, not %q", args)
	}
	switch args[0] {
	case "serve":
		return withInput(stdin, serve)
	case "resolve":
		return withInput(stdin, func(r Resolver) error { return resolve(r, stdout) })
	case "probe":
		return withInput(stdin, func(p Probe) error { return json.NewEncoder(stdout).Encode(p.run()) })
	case "scan":
		return withInput(stdin, func(s Scan) error { return json.NewEncoder(stdout).Encode(s.run()) })
	default:
		return fmt.Errorf("no actor %q", args[0])
	}
}

func withInput[T any](r io.Reader, do func(T) error) error {
	var in T
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return fmt.Errorf("reading the actor's part: %w", err)
	}
	return do(in)
}

// Self is the command line prefix that starts this binary as an actor.
func Self() ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []string{exe, Name}, nil
}
