// Command operator plans and runs oooi's shared stacks.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/densityops/oooi/operator/internal/app"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `usage: operator serve [flags]            run the controllers and the hub
       operator render -f FILE|DIR ...  plan offline: objects in; children, workloads, snapshots, status out
       operator --version
Each has --help; without a subcommand it serves.
Exit codes: 0 done, 1 failed or refused, 2 a command line that cannot be understood.`

// run dispatches to the subcommand; without one it serves.
func run(args []string, stdout, stderr io.Writer) int {
	command := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	var err error
	switch {
	case command == "" && slices.Equal(args, []string{"--help"}):
		fmt.Fprintln(stdout, usage)
	case slices.Equal(args, []string{"--version"}):
		fmt.Fprintln(stdout, app.VersionLine())
	case command == "serve", command == "":
		err = serve(args, stdout, stderr)
	case command == "render":
		err = app.Render(args, os.LookupEnv, stdout, stderr)
	default:
		fmt.Fprintf(stderr, "unknown command %q\n%s\n", command, usage)
		return 2
	}
	return code(err, stderr)
}

// code is the exit code of what a subcommand ended with.
func code(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, app.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, err)
	if errors.Is(err, app.ErrUsage) {
		return 2
	}
	return 1
}

func serve(args []string, stdout, stderr io.Writer) error {
	options, err := app.ParseOptions(args, os.LookupEnv, stdout, stderr)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	boundMemory(ctx)
	return app.Run(ctx, options)
}
