package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/debug"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"

	oooi "github.com/densityops/oooi/corednsplugin"
)

// directives in the order in which their plugins see a query. Answers of our own
// are counted by oooi itself and leave before prometheus and errors, which cost
// more than the answer; what is forwarded passes them.
var directives = []string{"bind", "debug", "health", "ready", "log", "oooi", "prometheus", "errors", "cache", "oooi_upstream", "forward"}

// environment is what each flag stands for; a flag beats its variable. The word in
// backquotes is how help calls the value.
var environment = []struct{ flag, variable, usage string }{
	{"snapshot", "OOOI_SNAPSHOT", "snapshot `FILE`, plain or gzipped, read again when it changes"},
	{"hub", "OOOI_HUB", "operator's stream, `HOST:PORT`; empty = none"},
	{"hub-ca", "OOOI_HUB_CA", "PEM `FILE` that the stream's certificate is checked with"},
	{"token", "OOOI_TOKEN", "`FILE` with the ServiceAccount token for the stream"},
	{"child", "OOOI_CHILD", "own DNSServer, `NAMESPACE/NAME`; empty = no status and no stream"},
	{"kubeconfig", "OOOI_KUBECONFIG", "kubeconfig `FILE` for the status; empty = the pod's account"},
	{"state-dir", "OOOI_STATE_DIR", "`DIR` that keeps the stream's last snapshot"},
	{"server-ip", "OOOI_SERVER_IP", "`IP` on the VLAN; empty = the snapshot's"},
	{"pod-ip", "POD_IP", "`IP` on the pod network, which health and metrics are on too; empty = 127.0.0.1"},
	{"fence", "OOOI_FENCE", "`on|off`: whether an init container fences the pod; off = look at forwarding instead"},
}

const usage = `usage: coredns [flags]      serve; without -conf by the Corefile that is built in
       coredns check FILE   say whether a snapshot can be served
       coredns --version

`

// Exit codes.
const (
	exitGood    = 0
	exitRefused = 1 // the input cannot be used
	exitUsage   = 2
)

func main() {
	for _, e := range environment {
		flag.Func(e.flag, e.usage+" ($"+e.variable+")", func(v string) error {
			if err := oooi.CheckValue(e.variable, v); err != nil {
				return err
			}
			return os.Setenv(e.variable, v)
		})
	}
	if code, done := command(os.Args[1:], os.Stdout, os.Stderr); done {
		os.Exit(code)
	}
	collectLess()
	dnsserver.Directives = directives
	caddy.RegisterCaddyfileLoader("oooi", caddy.LoaderFunc(corefile))
	coremain.Run()
}

// collectLess trades memory for CPU: what lives is some 10 MB, so at Go's default
// the collector runs dozens of times a second under load and takes an eighth of
// a query's cost. The soft limit keeps below what the pod is given. GOGC and
// GOMEMLIMIT win where they are set.
func collectLess() {
	const percent, limit = 400, 192 << 20
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// command does what is not serving: check FILE, --version, --help, and what
// cannot be understood.
func command(args []string, stdout, stderr io.Writer) (code int, done bool) {
	if len(args) > 0 && args[0] == "check" {
		return check(args[1:], stdout, stderr), true
	}
	flags := flag.CommandLine // coremain's, with ours
	flags.Init("coredns", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage, "flags:\n")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return exitGood, true
	case err != nil:
		fmt.Fprintf(stderr, "%v (see --help)\n", err)
		return exitUsage, true
	case flags.NArg() > 0:
		return misused(stderr, fmt.Sprintf("unknown argument %q", flags.Arg(0))), true
	case flags.Lookup("version").Value.String() == "true":
		fmt.Fprintf(stdout, "coredns %s contract %s CoreDNS %s\n", oooi.Version, oooi.Contract, coremain.CoreVersion)
		return exitGood, true
	}
	// Somebody else's Corefile knows what it needs.
	if ours := flags.Lookup("conf").Value.String() == "" && flags.Lookup("plugins").Value.String() != "true"; ours {
		if err := environmentIsGood(); err != nil {
			fmt.Fprintf(stderr, "%v (see --help)\n", err)
			return exitUsage, true
		}
	}
	return exitGood, false
}

// environmentIsGood looks at what the built-in Corefile is filled with. A flag has
// been looked at, and is in its variable.
func environmentIsGood() error {
	for _, name := range append([]string{"OOOI_DNS_PORT"}, variables()...) {
		value := os.Getenv(name)
		if err := oooi.CheckValue(name, value); err != nil {
			return fmt.Errorf("invalid value %q for $%s: %w", value, name, err)
		}
	}
	return oooi.CheckEnvironment(os.Getenv)
}

func variables() []string {
	out := make([]string, len(environment))
	for i, e := range environment {
		out[i] = e.variable
	}
	return out
}

func check(args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-help" || args[0] == "-h"):
		fmt.Fprint(stdout, usage)
		return exitGood
	case len(args) != 1 || strings.HasPrefix(args[0], "-"):
		return misused(stderr, "check takes one FILE")
	}
	if err := oooi.Check(args[0], stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return exitRefused
	}
	return exitGood
}

func misused(stderr io.Writer, why string) int {
	fmt.Fprintln(stderr, why)
	fmt.Fprint(stderr, usage)
	return exitUsage
}

// corefile completes the environment and, without -conf, gives the built-in
// configuration.
func corefile(serverType string) (caddy.Input, error) {
	err := oooi.Environment(os.Getenv, os.Setenv)
	if flag.Lookup("conf").Value.String() != "" {
		return nil, nil // somebody else's Corefile knows what it needs
	}
	if err != nil {
		return nil, err
	}
	return caddy.CaddyfileInput{Contents: []byte(oooi.Corefile), Filepath: "Corefile", ServerTypeName: serverType}, nil
}
