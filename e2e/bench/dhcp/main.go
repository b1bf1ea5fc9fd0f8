// Command dhcp measures what a lease costs in our dhcpd, with a sync to disk
// before every ACK, beside Kea and dnsmasq in the same run, which do not sync.
//
// What counts is CPU per lease as a ratio: on a shared machine throughput
// swings, ratios repeat. Rounds are interleaved, figures are medians. Then come
// boot storms of clients on the link, renewals among 10,000 leases, and memory.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figures are what one round says of one server.
type figures struct {
	CPU     float64 `json:"cpu_us_per_dora"`
	Rate    float64 `json:"dora_per_s"`
	LowMS   float64 `json:"request_ack_ms_at_300_per_s"`
	Durable bool    `json:"sync_before_ack"`
}

// row is one comparison.
type row struct {
	ID     string  `json:"id"`
	Ours   float64 `json:"ours"`
	Peer   string  `json:"peer"`
	Theirs float64 `json:"theirs"`
	Ratio  float64 `json:"ratio"`
	Bar    float64 `json:"bar"`
	OK     bool    `json:"ok"`
}

type result struct {
	Rounds   int                  `json:"rounds"`
	Versions map[string]string    `json:"versions"`
	Rows     []row                `json:"rows"`
	Figures  map[string][]figures `json:"figures"`
	Link     []linkFigures        `json:"link"`
}

// pool of some 130,000 addresses for floods.
var (
	first = netip.MustParseAddr("198.18.1.0")
	last  = netip.MustParseAddr("198.19.255.200")
)

func main() {
	run := measureAll
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "clients" { // this very program inside of the clients' host
		run, args = clients, args[1:]
	}
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measureAll(args []string) error {
	fs := flag.NewFlagSet("bench-dhcp", flag.ContinueOnError)
	ours := fs.String("ours", "bin/dhcpd", "our server, by an absolute path")
	rounds := fs.Int("rounds", 3, "rounds, interleaved")
	out := fs.String("out", "bench-out/dhcp.json", "where the figures go")
	if err := fs.Parse(args); err != nil {
		return err
	}
	ctx := context.Background()
	list := servers(*ours)
	res := result{Rounds: *rounds, Versions: versions(ctx, *ours), Figures: map[string][]figures{}}
	for k := range *rounds {
		for _, s := range list {
			f, err := flood(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			res.Figures[s.name] = append(res.Figures[s.name], f)
			fmt.Fprintf(os.Stderr, "round %d %-8s %7.1f us/DORA %7.0f DORA/s %6.2f ms\n", k+1, s.name, f.CPU, f.Rate, f.LowMS)
		}
	}
	for _, n := range []int{1000, 5000, 10000} {
		l, err := onLink(ctx, list[0], n)
		if err != nil {
			return fmt.Errorf("%d clients on the link: %w", n, err)
		}
		res.Link = append(res.Link, l)
		fmt.Fprintf(os.Stderr, "%d clients: all bound in %.2f s, renewals p99 %.2f ms, %.1f MB\n", n, l.StormS, l.RenewP99MS, l.RSSMB)
	}
	res.Rows = append(compare(res.Figures), linkRows(res.Link)...)
	return report(*out, res)
}

func median(fs []figures, get func(figures) float64) float64 {
	v := make([]float64, len(fs))
	for i, f := range fs {
		v[i] = get(f)
	}
	slices.Sort(v)
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}

// compare makes the rows against peers. Kea with one thread sets the bar.
func compare(fs map[string][]figures) []row {
	cpu, rate := func(f figures) float64 { return f.CPU }, func(f figures) float64 { return f.Rate }
	var rows []row
	for _, p := range []string{"kea-st", "kea-mt", "dnsmasq"} {
		c := row{ID: "dhcp.cpu_us_per_dora", Ours: median(fs["ours"], cpu), Peer: p, Theirs: median(fs[p], cpu), OK: true}
		r := row{ID: "dhcp.dora_per_s", Ours: median(fs["ours"], rate), Peer: p, Theirs: median(fs[p], rate), OK: true}
		c.Ratio, r.Ratio = c.Ours/c.Theirs, r.Ours/r.Theirs
		if p == "kea-st" {
			c.Bar, c.OK = 1, c.Ratio <= 1
			r.Bar, r.OK = 1, r.Ratio >= 1
		}
		rows = append(rows, c, r)
	}
	return rows
}

// linkRows compares with absolute bars: there is no peer.
func linkRows(ls []linkFigures) []row {
	var rows []row
	add := func(id string, ours, bar float64) {
		rows = append(rows, row{ID: id, Ours: ours, Peer: "none", Bar: bar, Ratio: ours / bar, OK: ours <= bar})
	}
	for _, l := range ls {
		switch l.Clients {
		case 1000:
			add("dhcp.storm_1000_s", l.StormS, 3)
		case 5000:
			add("dhcp.storm_5000_s", l.StormS, 10)
		case 10000:
			add("dhcp.renew_p99_ms_10000", l.RenewP99MS, 5)
			add("dhcp.rss_mb_10000", l.RSSMB, 40)
		}
		rows = append(rows,
			row{ID: fmt.Sprintf("dhcp.twice_%d", l.Clients), Ours: float64(l.Twice), Peer: "none", OK: l.Twice == 0},
			row{ID: fmt.Sprintf("dhcp.naks_%d", l.Clients), Ours: float64(l.Naks), Peer: "none", OK: l.Naks == 0})
	}
	return rows
}

func report(file string, res result) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "figure\tours\tpeer\ttheirs\tratio\tbar\tok\t")
	for _, r := range res.Rows {
		fmt.Fprintf(w, "%s\t%.2f\t%s\t%.2f\t%.2f\t%.2f\t%v\t\n", r.ID, r.Ours, r.Peer, r.Theirs, r.Ratio, r.Bar, r.OK)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("%d rounds; ours syncs to disk before every ACK, the peers do not\n", res.Rounds)
	b, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

func versions(ctx context.Context, ours string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out := map[string]string{}
	for name, args := range map[string][]string{"ours": {ours, "--version"}, "kea": {"kea-dhcp4", "-v"}, "dnsmasq": {"dnsmasq", "--version"}} {
		b, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
		if err != nil {
			b = []byte(err.Error())
		}
		out[name], _, _ = strings.Cut(string(b), "\n")
	}
	return out
}
