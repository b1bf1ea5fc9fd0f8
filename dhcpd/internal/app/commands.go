package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/agent"
	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/journal"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// What the commands return to the shell.
const (
	good    = 0
	refused = 1 // the input cannot be used, or not all of it
	misused = 2 // the command line cannot be understood
)

// parse reads a command's flags. It says what to return where that is the end
// of it: help that was asked for is an answer, not an error.
func parse(fs *flag.FlagSet, args []string, usage string, stdout, stderr io.Writer) (int, bool) {
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "usage: %s\n", usage)
		fs.PrintDefaults()
	}
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case err == nil:
		return good, false
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(stdout)
		fs.Usage()
		return good, true
	}
	fmt.Fprintf(stderr, "%v (see --help)\n", err)
	return misused, true
}

// Check says whether a snapshot can be served as it is, and names every field
// that it cannot. Unlike a server, which must take a later operator's snapshot,
// it refuses fields that it does not know.
func Check(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("dhcpd check", flag.ContinueOnError)
	if code, done := parse(fs, args, "dhcpd check FILE", stdout, stderr); done {
		return code
	}
	if fs.NArg() != 1 {
		fmt.Fprintf(stderr, "want one FILE, got %d\nusage: dhcpd check FILE\n", fs.NArg())
		return misused
	}
	cfg, err := readStrictly(fs.Arg(0))
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", fs.Arg(0), err)
		return refused
	}
	total := lease.New(cfg.Lease, time.Unix(0, 0)).Stats().Total
	fmt.Fprintf(stdout, "%s: server %s on %s, %d addresses\n", cfg.Version, cfg.ServerIP, cfg.Prefix, total)
	for _, p := range cfg.Problems {
		fmt.Fprintf(stdout, "%s: %s\n", p.Reason, p.Message)
	}
	if len(cfg.Problems) > 0 {
		return refused
	}
	return good
}

func readStrictly(path string) (*config.Config, error) {
	b, err := agent.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := config.DecodeStrict(b)
	if err != nil {
		return nil, err
	}
	return config.From(s)
}

// stateNames are the states as `dhcpd leases` shows them.
var stateNames = map[lease.State]string{
	lease.Free: "free", lease.Bound: "bound", lease.Cooling: "cooling", lease.Quarantined: "declined", lease.Resting: "resting",
}

// row is one line of `dhcpd leases`.
type row struct {
	IP         string `json:"ip"`
	State      string `json:"state"`
	MACAddress string `json:"macAddress,omitempty"`
	Until      string `json:"until,omitempty"`
	VM         string `json:"vm,omitempty"`
}

// Leases lists what the journal of a state directory holds.
func Leases(args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("dhcpd leases", flag.ContinueOnError)
	dir, _ := env("OOOI_STATE_DIR")
	fs.StringVar(&dir, "state-dir", cmp.Or(dir, "/var/lib/oooi"), "`DIR` of the lease journal (OOOI_STATE_DIR)")
	output := fs.String("output", "table", "`FORMAT`: table or json")
	if code, done := parse(fs, args, "dhcpd leases [flags]", stdout, stderr); done {
		return code
	}
	switch {
	case fs.NArg() > 0:
		fmt.Fprintf(stderr, "unexpected argument %q\n", fs.Arg(0))
		return misused
	case *output != "table" && *output != "json":
		fmt.Fprintf(stderr, "--output %q: want table or json\n", *output)
		return misused
	}
	found, err := journal.Read(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%s holds no lease journal", dir)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return refused
	}
	if found.Damaged {
		fmt.Fprintln(stderr, "the journal is damaged; what could be read follows")
	}
	write := table
	if *output == "json" {
		write = asJSON
	}
	if err := write(stdout, rows(found.Records)); err != nil {
		fmt.Fprintln(stderr, err)
		return refused
	}
	return good
}

func rows(records []lease.Record) []row {
	last := map[string]lease.Record{}
	for _, r := range records {
		last[r.IP.String()] = r
	}
	all := make([]lease.Record, 0, len(last))
	for _, r := range last {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b lease.Record) int { return a.IP.Compare(b.IP) })
	out := make([]row, 0, len(all))
	for _, r := range all {
		o := row{IP: r.IP.String(), State: stateNames[r.State]}
		if r.MAC != (lease.MAC{}) {
			o.MACAddress = r.MAC.String()
		}
		if !r.Until.IsZero() {
			o.Until = r.Until.Format(time.RFC3339)
		}
		if r.VM.Known() {
			o.VM = r.VM.String()
		}
		out = append(out, o)
	}
	return out
}

func asJSON(w io.Writer, rows []row) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}

func table(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "IP\tSTATE\tMAC\tUNTIL\tVM")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.IP, r.State, r.MACAddress, r.Until, r.VM)
	}
	return w.Flush()
}
