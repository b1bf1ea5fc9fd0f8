package app

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/netip"

	"github.com/densityops/oooi/xds-manager/internal/routes"
	"github.com/densityops/oooi/xds-manager/internal/translate"
)

// query is a connection that somebody asks about.
type query struct {
	hello routes.Hello
	port  uint16
	side  routes.Side
}

// Routes is the command "routes": where a connection would go, and why. Without
// a port it lists every listener.
func Routes(args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("routes", flag.ContinueOnError)
	snapshot := fs.String("snapshot", "/etc/oooi/snapshot.json.gz", "snapshot file")
	sni := fs.String("sni", "", "server name of the hello, or Host of the request; empty = none")
	source := fs.String("source", "", "address that the connection comes from")
	port := fs.Uint("port", 0, "port that it goes to; 0 = list all listeners")
	pod := fs.Bool("pod", false, "to the pod IP instead of the VLAN address")
	plain := fs.Bool("plain", false, "bytes that are no TLS")
	if err := parse(fs, args, stdout, "routes [--snapshot FILE] [--port PORT --source IP [--sni NAME] [--plain] [--pod]]"); err != nil {
		return err
	}
	q := query{hello: routes.Hello{TLS: !*plain, Name: *sni}, side: routes.VLAN}
	if *pod {
		q.side = routes.Pod
	}
	if fs.NArg() > 0 {
		return usage("routes: unknown argument %q", fs.Arg(0))
	}
	if err := cmp.Or(lonely(fs, *port), q.at(*port, *source)); err != nil {
		return err
	}
	_, t, problems, err := load(*snapshot)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(stderr, "%s: %s\n", p.Reason, p.Message)
	}
	if *port == 0 {
		list(stdout, t)
		return nil
	}
	return explain(stdout, t, q)
}

// lonely refuses what is said of a connection that goes to no port: the list of
// all listeners would take no notice of it.
func lonely(fs *flag.FlagSet, port uint) (err error) {
	fs.Visit(func(f *flag.Flag) {
		if port == 0 && f.Name != "snapshot" && f.Name != "port" && err == nil {
			err = usage("routes: --%s is of one connection and needs --port", f.Name)
		}
	})
	return err
}

// at sets where a connection goes to and comes from.
func (q *query) at(port uint, source string) (err error) {
	if port > 65535 {
		return usage("routes: --port %d is no port", port)
	}
	q.port = uint16(port)
	if source == "" {
		if port != 0 && q.side == routes.VLAN {
			return usage("routes: --source is needed on the VLAN side")
		}
		return nil
	}
	if q.hello.Source, err = netip.ParseAddr(source); err != nil {
		return usage("routes: --source %q is no address", source)
	}
	return nil
}

func list(w io.Writer, t routes.Table) {
	for _, l := range t.Listeners() {
		fmt.Fprintln(w, title(t, l))
		for _, r := range l.Exact {
			describe(w, r.Name, r.Route)
		}
		for _, r := range l.Wildcards {
			describe(w, r.Name, r.Route)
		}
		describe(w, "(no server name)", l.NoSNI)
		describe(w, "(anything else)", l.Rest)
	}
}

func title(t routes.Table, l routes.Listener) string {
	if l.Name != "" {
		return translate.ListenerName(t, l) + " (external listener " + l.Name + ")"
	}
	return translate.ListenerName(t, l)
}

func describe(w io.Writer, what string, r routes.Route) {
	for _, s := range r.Sources {
		fmt.Fprintf(w, "  %-50s from %-15s -> %s\n", what, s.Addr, s.Backend)
	}
	if r.Any != "" {
		fmt.Fprintf(w, "  %-50s from anywhere        -> %s\n", what, r.Any)
	}
}

func explain(w io.Writer, t routes.Table, q query) error {
	for _, l := range t.Listeners() {
		if l.Port != q.port || l.Side != q.side {
			continue
		}
		v := l.Explain(q.hello)
		fmt.Fprintf(w, "listener %s\n", title(t, l))
		for _, s := range v.Steps {
			fmt.Fprintf(w, "  %s\n", s)
		}
		if v.Backend == "" {
			fmt.Fprintln(w, "no backend")
			return ErrFound
		}
		fmt.Fprintf(w, "backend %s\n", v.Backend)
		if chain := translate.Chain(t, l, v.Backend); chain != v.Backend {
			fmt.Fprintf(w, "  by the filter chain of %s, which leads to the same endpoints\n", chain)
		}
		for _, b := range t.Backends {
			if b.Name == v.Backend {
				for _, e := range b.Endpoints {
					fmt.Fprintf(w, "  endpoint %s\n", endpointText(e))
				}
			}
		}
		return nil
	}
	fmt.Fprintf(w, "nothing listens on port %d of the %s side\n", q.port, q.side)
	return ErrFound
}

func endpointText(e routes.Endpoint) string {
	if e.Host != "" {
		return fmt.Sprintf("%s:%d", e.Host, e.Port)
	}
	return netip.AddrPortFrom(e.Addr, e.Port).String()
}
