package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

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

// environment is what each flag stands for; a flag beats its variable.
var environment = map[string]string{
	"snapshot": "OOOI_SNAPSHOT", "hub": "OOOI_HUB", "hub-ca": "OOOI_HUB_CA", "token": "OOOI_TOKEN",
	"child": "OOOI_CHILD", "kubeconfig": "OOOI_KUBECONFIG", "state-dir": "OOOI_STATE_DIR",
	"pod-ip": "POD_IP", "server-ip": "OOOI_SERVER_IP", "fence": "OOOI_FENCE",
}

func main() {
	if done, err := command(os.Args[1:]); done {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	collectLess()
	for name, variable := range environment {
		flag.Func(name, "sets "+variable, func(v string) error { return os.Setenv(variable, v) })
	}
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

// command handles what is no server: --version and check FILE.
func command(args []string) (done bool, err error) {
	if slices.Contains(args, "--version") || slices.Contains(args, "-version") {
		_, err = fmt.Fprintf(os.Stdout, "coredns %s, contract %s, CoreDNS %s\n", oooi.Version, oooi.Contract, coremain.CoreVersion)
		return true, err
	}
	if len(args) == 0 || args[0] != "check" {
		return false, nil
	}
	if len(args) != 2 {
		return true, errors.New("usage: coredns check FILE")
	}
	return true, oooi.Check(args[1], os.Stdout)
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
