// Command dhcpd is a DHCP server for virtual machines on an isolated network.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/densityops/oooi/dhcpd/internal/app"
	"github.com/densityops/oooi/dhcpd/internal/version"
)

const usage = `usage: dhcpd COMMAND

  serve      serve one network from a snapshot file, the operator's stream, or both
  check      say whether a snapshot file can be served, and what is wrong with it
  leases     list what the lease journal holds, also beside a running server
  --version  print the module's version and the contract

Every command has --help. Exit status: 0 all is well, 1 the input was refused
or the work failed, 2 the command was called wrongly.
`

func main() {
	// With a file capability the runtime hides tracebacks otherwise.
	debug.SetTraceback("all")
	// What lives is small and changes little, so collecting often costs little
	// and keeps the pod small.
	debug.SetGCPercent(25)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	switch args[0] {
	case "serve":
		return serve(args[1:], stdout, stderr)
	case "check":
		return app.Check(args[1:], stdout, stderr)
	case "leases":
		return app.Leases(args[1:], os.LookupEnv, stdout, stderr)
	case "--version", "-version", "version":
		fmt.Fprintf(stdout, "dhcpd %s contract %s\n", version.Module, version.Contract)
		return 0
	case "--help", "-help", "-h", "help":
		fmt.Fprint(stdout, usage)
		return 0
	}
	fmt.Fprintf(stderr, "unknown command %q\n%s", args[0], usage)
	return 2
}

func serve(args []string, stdout, stderr io.Writer) int {
	opts, code := app.ParseOptions(args, os.LookupEnv, stdout, stderr)
	if code >= 0 {
		return code
	}
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: opts.LogLevel}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a, err := app.New(opts, log)
	if err == nil {
		err = a.Run(ctx)
	}
	if err != nil {
		log.Error("exiting", "err", err)
		return 1
	}
	return 0
}
