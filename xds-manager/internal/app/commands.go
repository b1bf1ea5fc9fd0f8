package app

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/densityops/oooi/xds-manager/internal/agent"
	"github.com/densityops/oooi/xds-manager/internal/bootstrap"
	"github.com/densityops/oooi/xds-manager/internal/routes"
	"github.com/densityops/oooi/xds-manager/internal/translate"
)

// WriteBootstrap is the command "bootstrap": it writes Envoy's configuration,
// whole or not at all.
func WriteBootstrap(args []string, env Lookup, stdout io.Writer) error {
	var o Options
	var out, memory string
	f := newFlags("bootstrap")
	f.StringVar(&out, "out", "/run/oooi/bootstrap.yaml", "`FILE` to write; Envoy reads none below /dev, /proc or /sys")
	f.text(&memory, "envoy-memory", "OOOI_ENVOY_MEMORY", "", "memory limit of Envoy's container in `BYTES`; empty or 0 = none", byteCount)
	o.bootFlags(f)
	if err := parse(f.FlagSet, args, stdout, "bootstrap [flags]"); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return usage("bootstrap: unknown argument %q", f.Arg(0))
	}
	if err := cmp.Or(f.environment(env), o.sockets()); err != nil {
		return usage("bootstrap: %w", err)
	}
	c := bootstrap.Config{NodeID: o.NodeID(), XDSSocket: o.XDSSocket, AdminSocket: o.AdminSocket}
	c.Memory, _ = strconv.ParseUint(memory, 10, 64) // empty is none, and else it is a number
	if o.PodIP != "" {
		var err error
		c.PodIP = netip.MustParseAddr(o.PodIP)
		if c.PodDevice, err = deviceOf(c.PodIP); err != nil {
			return err
		}
	}
	return writeBootstrap(c, out)
}

func writeBootstrap(c bootstrap.Config, out string) error {
	b, err := bootstrap.Encode(c, out)
	if err != nil {
		return err
	}
	tmp := out + ".new"
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("writing bootstrap: %w", err)
	}
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return fmt.Errorf("writing bootstrap: %w", err)
	}
	if err := os.Rename(tmp, out); err != nil {
		return fmt.Errorf("writing bootstrap: %w", err)
	}
	return nil
}

// Check is the command "check": it validates a snapshot file, names its
// problems, and prints what Envoy would get when asked to: then stdout holds
// resources alone, and stderr the rest. Unlike "serve", which
// must understand the snapshots of later operators, it refuses a field that it
// does not know.
func Check(args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	print := fs.Bool("print", false, "print Envoy's resources, each as a line of JSON; the summary goes to standard error then")
	var podIP string
	fs.Var(&text{p: &podIP, check: hostIPv4}, "pod-ip", "`IP` of the pod side, as in serve; without it the VLAN side alone is made")
	if err := parse(fs, args, stdout, "check [--print] [--pod-ip IP] FILE"); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return usage("check: want one FILE, got %d arguments", fs.NArg())
	}
	env := translate.Env{}
	if podIP != "" {
		env.PodIP = netip.MustParseAddr(podIP)
	}
	s, t, problems, err := load(fs.Arg(0))
	if err != nil {
		return err
	}
	r, more, err := translate.Snapshot(t, env)
	if err != nil {
		return err
	}
	problems = routes.SortProblems(append(problems, more...))
	if *print {
		if err := printResources(stdout, translate.Build(t, env)); err != nil {
			return err
		}
		stdout = stderr
	}
	fmt.Fprintf(stdout, "snapshot %s: %d backends, %d listeners%s, %d problems\n", s.Version, r.Backends, len(r.Listeners), left(t, len(r.Listeners)), len(problems))
	for _, p := range problems {
		fmt.Fprintf(stdout, "  %s: %s\n", p.Reason, p.Message)
	}
	if len(problems) > 0 {
		return ErrFound
	}
	return nil
}

// left says how many of the listeners that "routes" lists were not made.
func left(t routes.Table, made int) string {
	if n := len(t.Listeners()) - made; n > 0 {
		return fmt.Sprintf(" (and %d of the pod side with --pod-ip)", n)
	}
	return ""
}

// load reads a snapshot as strictly as can be.
func load(path string) (agent.Snapshot, routes.Table, []routes.Problem, error) {
	b, err := agent.Read(path)
	if err != nil {
		return agent.Snapshot{}, routes.Table{}, nil, err
	}
	s, err := agent.DecodeStrict(b)
	if err != nil {
		return agent.Snapshot{}, routes.Table{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	t, problems := s.Table.Validate()
	return s, t, slices.Concat(s.Problems, problems), nil
}

func printResources(w io.Writer, m translate.Messages) error {
	var all []proto.Message
	for _, c := range m.Clusters {
		all = append(all, c)
	}
	for _, l := range m.Listeners {
		all = append(all, l)
	}
	for _, r := range m.Routes {
		all = append(all, r)
	}
	for _, msg := range all {
		b, err := protojson.Marshal(msg)
		if err != nil {
			return fmt.Errorf("encoding resource: %w", err)
		}
		fmt.Fprintln(w, string(b))
	}
	return nil
}
