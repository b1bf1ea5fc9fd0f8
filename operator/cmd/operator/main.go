// Command operator plans and runs oooi's shared stacks.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/densityops/oooi/operator/internal/app"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run dispatches to the subcommand.
func run(args []string, stdout, stderr io.Writer) int {
	var err error
	switch {
	case len(args) > 0 && args[0] == "render":
		err = app.Render(args[1:], os.LookupEnv, stdout, stderr)
	default:
		err = errors.New("usage: operator render -f FILE")
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
