// Command dns measures what a query costs in our CoreDNS, beside stock CoreDNS,
// knot and unbound in the same run: dnsperf asks by UDP over a veth pair, every
// server knows the same names.
//
// What counts is CPU per query as a ratio: on a shared machine throughput
// swings, ratios repeat. Rounds are interleaved, figures are medians. Then
// changes come while dnsperf asks, and no query may be lost.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
)

// figures are what one round says of one server.
type figures struct {
	CPU       float64 `json:"cpu_us_per_query"`
	QPS       float64 `json:"queries_per_s"`
	LatencyMS float64 `json:"latency_ms_at_2000_per_s"`
	LowCPU    float64 `json:"cpu_us_per_query_at_2000_per_s"`
	RSSMB     float64 `json:"rss_mb"`
}

// row is one comparison.
type row struct {
	ID     string  `json:"id"`
	Ours   float64 `json:"ours"`
	Peer   string  `json:"peer"`
	Theirs float64 `json:"theirs"`
	Ratio  float64 `json:"ratio"`
	Bar    float64 `json:"bar,omitempty"`
	OK     bool    `json:"ok"`
}

type result struct {
	Rounds   int                  `json:"rounds"`
	Versions map[string]string    `json:"versions"`
	Rows     []row                `json:"rows"`
	Figures  map[string][]figures `json:"figures"`
}

// sizes are the numbers of clusters; peers are measured at the middle one.
var sizes = []int{10, 100, 1000}

const middle = 100

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	fs := flag.NewFlagSet("bench-dns", flag.ContinueOnError)
	b := binaries{}
	fs.StringVar(&b.ours, "ours", "bin/coredns", "our CoreDNS")
	fs.StringVar(&b.stock, "stock", "bin/bench-coredns", "stock CoreDNS")
	rounds := fs.Int("rounds", 3, "rounds, interleaved")
	out := fs.String("out", "bench-out/dns.json", "where the figures go")
	if err := fs.Parse(args); err != nil {
		return err
	}
	ctx := context.Background()
	res := result{Rounds: *rounds, Versions: b.versions(ctx), Figures: map[string][]figures{}}
	for k := range *rounds {
		for _, s := range b.servers() {
			for _, n := range s.sizes {
				id := fmt.Sprintf("%s/%d", s.name, n)
				f, err := measure(ctx, s, n)
				if err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
				res.Figures[id] = append(res.Figures[id], f)
				fmt.Fprintf(os.Stderr, "round %d %-24s %6.2f us/query %8.0f queries/s %6.2f ms %6.1f MB\n", k+1, id, f.CPU, f.QPS, f.LatencyMS, f.RSSMB)
			}
		}
	}
	lost, changes, err := changesUnderLoad(ctx, b.servers()[0])
	if err != nil {
		return fmt.Errorf("changes under load: %w", err)
	}
	res.Rows = append(compare(res.Figures), row{ID: fmt.Sprintf("dns.lost_in_%d_changes", changes), Ours: float64(lost), Peer: "none", OK: lost == 0})
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

// compare makes the rows; a bar of 0 is a figure that is shown without one. A
// row shows the round whose ratio is the median: both sides of it were measured
// within a minute, so the machine's load weighs on them alike.
func compare(fs map[string][]figures) []row {
	var rows []row
	add := func(id, ours, name, peer string, bar float64) {
		r := row{ID: id, Peer: name, Bar: bar}
		r.Ours, r.Theirs = medianRound(fs[ours], fs[peer])
		if r.Theirs != 0 {
			r.Ratio = r.Ours / r.Theirs
		}
		r.OK = bar == 0 || r.Ratio <= bar
		rows = append(rows, r)
	}
	for _, p := range []struct {
		name string
		bar  float64
	}{{"view-errors-prometheus-file", 0.6}, {"whoami", 1.15}, {"file", 0}, {"view-hosts-templates", 0}, {"knot", 0}, {"unbound", 0}} {
		add("dns.cpu_us_per_query", fmt.Sprintf("ours/%d", middle), p.name, fmt.Sprintf("%s/%d", p.name, middle), p.bar)
	}
	// Flat from 10 to 1000 clusters.
	for _, n := range sizes[1:] {
		add(fmt.Sprintf("dns.cpu_us_per_query_%d", n), fmt.Sprintf("ours/%d", n), "ours/10", "ours/10", 1.1)
	}
	return rows
}

// medianRound is what both sides took in the round whose ratio is the median.
func medianRound(ours, theirs []figures) (x, y float64) {
	order := make([]int, min(len(ours), len(theirs)))
	for k := range order {
		order[k] = k
	}
	if len(order) == 0 {
		return 0, 0
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ours[a].CPU/theirs[a].CPU, ours[b].CPU/theirs[b].CPU) })
	k := order[len(order)/2]
	return ours[k].CPU, theirs[k].CPU
}

func report(file string, res result) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "server/clusters\tus/query\tqueries/s\tus/query at 2000/s\tms at 2000/s\tMB\t")
	ids := make([]string, 0, len(res.Figures))
	for id := range res.Figures {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		f := res.Figures[id]
		fmt.Fprintf(w, "%s\t%.2f\t%.0f\t%.1f\t%.2f\t%.1f\t\n", id, median(f, func(f figures) float64 { return f.CPU }), median(f, func(f figures) float64 { return f.QPS }),
			median(f, func(f figures) float64 { return f.LowCPU }), median(f, func(f figures) float64 { return f.LatencyMS }), median(f, func(f figures) float64 { return f.RSSMB }))
	}
	fmt.Fprintln(w, "\nrow\tours\tpeer\ttheirs\tratio\tbar\tok\t")
	for _, r := range res.Rows {
		fmt.Fprintf(w, "%s\t%.2f\t%s\t%.2f\t%.2f\t%.2f\t%t\t\n", r.ID, r.Ours, r.Peer, r.Theirs, r.Ratio, r.Bar, r.OK)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	data, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644) //nolint:gosec // figures
}

// versions asks each program who it is.
func (b binaries) versions(ctx context.Context) map[string]string {
	out := map[string]string{}
	for name, args := range map[string][]string{
		"ours": {b.ours, "--version"}, "coredns": {b.stock, "-version"}, "knot": {"knotd", "-V"}, "unbound": {"unbound", "-V"}, "dnsperf": {"dnsperf", "-h"},
	} {
		said, _ := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput() //nolint:gosec // our own arguments
		line, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
		out[name] = line
	}
	return out
}
