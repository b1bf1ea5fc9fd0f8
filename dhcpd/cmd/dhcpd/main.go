// Command dhcpd is a DHCP server for virtual machines on an isolated network.
package main

import (
	"context"
	"errors"
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

const usage = `usage: dhcpd serve [flags]   serve one network (dhcpd serve --help)
       dhcpd check FILE      say whether a snapshot can be served
       dhcpd leases [flags]  list what the journal holds (dhcpd leases --help)
       dhcpd --version
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
		return serve(args[1:], stderr)
	case "check":
		return app.Check(args[1:], stdout, stderr)
	case "leases":
		return app.Leases(args[1:], os.LookupEnv, stdout, stderr)
	case "--version", "-version", "version":
		fmt.Fprintf(stdout, "dhcpd %s %s\n", version.Module, version.Contract)
		return 0
	}
	fmt.Fprint(stderr, usage)
	return 2
}

func serve(args []string, stderr io.Writer) int {
	opts, err := app.ParseOptions(args, os.LookupEnv, stderr)
	if err != nil {
		if !errors.Is(err, app.ErrUsage) {
			fmt.Fprintln(stderr, err)
		}
		return 2
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
