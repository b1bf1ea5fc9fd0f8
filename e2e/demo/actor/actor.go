package actor

import (
	"context"
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
	if err := run(context.Background(), args, stdin, stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("one of serve, resolve, probe, scan is wanted, not %q", args)
	}
	switch args[0] {
	case "serve":
		return withInput(stdin, func(s Servers) error { return serve(ctx, s) })
	case "resolve":
		return withInput(stdin, func(r Resolver) error { return resolve(ctx, r, stdout) })
	case "probe":
		return withInput(stdin, func(p Probe) error { return json.NewEncoder(stdout).Encode(p.run(ctx)) })
	case "scan":
		return withInput(stdin, func(s Scan) error { return json.NewEncoder(stdout).Encode(s.run(ctx)) })
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
