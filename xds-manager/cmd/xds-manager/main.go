// Command xds-manager programs one Envoy from a snapshot.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/densityops/oooi/xds-manager/internal/agent"
	"github.com/densityops/oooi/xds-manager/internal/app"
)

// version is the module's, set at link time.
var version = "v0.1.0"

const usage = `usage: xds-manager COMMAND

  serve      program Envoy from a snapshot file, the operator's stream, or both
  bootstrap  write the configuration that Envoy starts with
  check      validate a snapshot file and say what Envoy would get
  routes     explain where a connection would go, and why
  --version  print the module's version and the contract

Every command has --help. Exit status: 0 all is well, 1 the input was refused
or the work failed, 2 the command was called wrongly.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	var err error
	switch args[0] {
	case "serve":
		err = serve(args[1:], stdout, stderr)
	case "bootstrap":
		err = app.WriteBootstrap(args[1:], os.LookupEnv, stdout)
	case "check":
		err = app.Check(args[1:], stdout, stderr)
	case "routes":
		err = app.Routes(args[1:], stdout, stderr)
	case "--version", "-version", "version":
		fmt.Fprintf(stdout, "xds-manager %s contract %s\n", version, agent.Contract)
	case "--help", "-h", "help":
		fmt.Fprint(stdout, usage)
	default:
		fmt.Fprintf(stderr, "unknown command %q\n%s", args[0], usage)
		return 2
	}
	return exit(err, stderr)
}

func exit(err error, stderr io.Writer) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, app.ErrUsage):
		fmt.Fprintln(stderr, err)
		return 2
	case !errors.Is(err, app.ErrFound):
		fmt.Fprintln(stderr, err)
	}
	return 1
}

func serve(args []string, stdout, stderr io.Writer) error {
	opts, err := app.ParseOptions(args, os.LookupEnv, stdout)
	if err != nil {
		return err
	}
	opts.Module = version
	opts.Logger = slog.New(slog.NewJSONHandler(stderr, nil)).With("component", app.Component)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx, opts); err != nil {
		opts.Logger.Error("exiting", "err", err)
		return app.ErrFound
	}
	return nil
}
