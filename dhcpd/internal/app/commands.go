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

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/journal"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// Check says whether a snapshot can be served, and what is wrong with it.
// Problems alone do not fail it: the rest is served.
func Check(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: dhcpd check FILE")
		return 2
	}
	b, err := os.ReadFile(args[0])
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	s, err := config.Decode(b)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	cfg, err := config.From(s)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	total := lease.New(cfg.Lease, time.Unix(0, 0)).Stats().Total
	fmt.Fprintf(stdout, "%s: server %s on %s, %d addresses\n", cfg.Version, cfg.ServerIP, cfg.Prefix, total)
	for _, p := range cfg.Problems {
		fmt.Fprintf(stdout, "%s: %s\n", p.Reason, p.Message)
	}
	return 0
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
	fs.SetOutput(stderr)
	dir, _ := env("OOOI_STATE_DIR")
	fs.StringVar(&dir, "state-dir", cmp.Or(dir, "/var/lib/oooi"), "`DIR` of the lease journal (OOOI_STATE_DIR)")
	output := fs.String("output", "table", "table or json")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	found, err := journal.Read(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%s holds no lease journal", dir)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if found.Damaged {
		fmt.Fprintln(stderr, "the journal is damaged; what could be read follows")
	}
	return show(rows(found.Records), *output, stdout, stderr)
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

func show(rows []row, output string, stdout, stderr io.Writer) int {
	switch output {
	case "json":
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(rows); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	case "table":
		w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "IP\tSTATE\tMAC\tUNTIL\tVM")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.IP, r.State, r.MACAddress, r.Until, r.VM)
		}
		if err := w.Flush(); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	}
	fmt.Fprintf(stderr, "--output %q: want table or json\n", output)
	return 2
}
