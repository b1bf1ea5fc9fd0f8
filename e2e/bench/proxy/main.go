// Command proxy measures what the Envoy that xds-manager configures costs,
// beside a bare Envoy, HAProxy and nginx in the same run.
//
// What counts is CPU per operation as a ratio: on a shared machine throughput
// swings, ratios repeat. Rounds are interleaved, figures are medians.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

var (
	self        string
	envoyPath   string
	managerPath string
)

func main() {
	var err error
	if self, err = os.Executable(); err == nil {
		err = run(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return role(args)
	}
	fs := flag.NewFlagSet("bench-proxy", flag.ContinueOnError)
	fs.StringVar(&managerPath, "manager", "bin/xds-manager", "xds-manager")
	fs.StringVar(&envoyPath, "envoy", "bin/tools/envoy", "Envoy")
	rounds := fs.Int("rounds", 3, "rounds, interleaved")
	out := fs.String("out", "bench-out/proxy.json", "where the figures go")
	only := fs.String("only", "", "run the benches whose names hold one of these alone (comma-separated)")
	loads := fs.String("loads", "conn,rtt,bulk,idle", "run these loads alone; the other columns are 0")
	if err := fs.Parse(args); err != nil {
		return err
	}
	benches := slices.DeleteFunc(all(), func(b bench) bool { return !holdsOne(b.id(), *only) })
	got := map[string][]figures{}
	for k := range *rounds {
		all, err := round(context.Background(), benches, strings.Split(*loads, ","))
		if err != nil {
			return err
		}
		for _, b := range benches {
			f := all[b.id()]
			got[b.id()] = append(got[b.id()], f)
			fmt.Fprintf(os.Stderr, "round %d %-24s %6.1f us/conn %6.2f us/rtt %6.3f s/GB %6.1f KB/idle\n", k+1, b.id(), f.ConnCPU, f.RTTCPU, f.GBCPU, f.IdleKB)
		}
	}
	return report(*out, *rounds, benches, got)
}

func holdsOne(name, words string) bool {
	return slices.ContainsFunc(strings.Split(words, ","), func(w string) bool { return strings.Contains(name, w) })
}

// role is what this program does inside the network of a round.
func role(args []string) error {
	num := func(i int) float64 { v, _ := strconv.ParseFloat(args[i], 64); return v }
	switch {
	case args[0] == "backend" && len(args) == 2:
		return serveBackend(args[1])
	case args[0] == "hold" && len(args) == 4:
		return hold(args[1], args[2], int(num(3)))
	case slices.Contains([]string{"conn", "rtt", "bulk"}, args[0]) && len(args) == 5:
		return load(args[0], args[1], args[2], num(3), int(num(4)))
	default:
		return errors.New("unknown role " + args[0])
	}
}

func all() []bench {
	return []bench{
		{"haproxy-map", 400, 0, haproxyMap},
		{"haproxy-map", 1600, 0, haproxyMap},
		{"haproxy-acl", 1600, 0, haproxyACL},
		{"nginx", 400, 0, nginx},
		{"nginx", 1600, 0, nginx},
		{"bare", 400, 0, bareEnvoy},
		{"ours", 400, 0, ours},
		{"ours-log", 400, 0, oursWithLog},
		{"bare", 1600, 0, bareEnvoy},
		{"ours", 1600, 0, ours},
		{"ours-log", 1600, 0, oursWithLog},
		{"ours", 40, 0, ours},
		{"ours", 1600, 2000, ours},
	}
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

func median(fs []figures, get func(figures) float64) float64 {
	v := make([]float64, len(fs))
	for i, f := range fs {
		v[i] = get(f)
	}
	return middle(v)
}

func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// columns are what is compared; a smaller figure is the better one.
var columns = []struct {
	id  string
	get func(figures) float64
}{
	{"conn_cpu_us", func(f figures) float64 { return f.ConnCPU }},
	{"rtt_cpu_us", func(f figures) float64 { return f.RTTCPU }},
	{"gb_cpu_s", func(f figures) float64 { return f.GBCPU }},
	{"kb_per_idle_conn", func(f figures) float64 { return f.IdleKB }},
	{"mb_idle", func(f figures) float64 { return f.BaseMB }},
}

// comparison is one column pair with its bar; 0 is no bar.
type comparison struct {
	ours, peer string
	bars       map[string]float64
}

func comparisons() []comparison {
	every := func(bar float64) map[string]float64 {
		return map[string]float64{"conn_cpu_us": bar, "rtt_cpu_us": bar, "gb_cpu_s": bar, "kb_per_idle_conn": bar, "mb_idle": bar}
	}
	flat := map[string]float64{"conn_cpu_us": 1.05}
	return []comparison{
		{"ours/400", "bare/400", every(1.05)},
		{"ours/1600", "bare/1600", every(1.05)},
		{"ours-log/400", "bare/400", every(1.10)},
		{"ours-log/1600", "bare/1600", every(1.10)},
		{"ours/1600", "haproxy-acl/1600", map[string]float64{"conn_cpu_us": 0.5}},
		{"ours/1600", "ours/40", flat},
		{"ours/1600+2000w", "ours/40", flat},
		{"ours/400", "haproxy-map/400", nil},
		{"ours/1600", "haproxy-map/1600", nil},
		{"ours/400", "nginx/400", nil},
		{"ours/1600", "nginx/1600", nil},
	}
}

func report(path string, rounds int, benches []bench, got map[string][]figures) error {
	var rows []row
	for _, c := range comparisons() {
		if got[c.ours] == nil || got[c.peer] == nil {
			continue
		}
		for _, col := range columns {
			bar, barred := c.bars[col.id]
			if c.bars != nil && !barred {
				continue
			}
			r := row{ID: "proxy." + col.id + "." + c.ours, Peer: c.peer, Ours: median(got[c.ours], col.get), Theirs: median(got[c.peer], col.get), Bar: bar}
			if r.Theirs > 0 {
				r.Ratio = r.Ours / r.Theirs
			}
			r.OK = !barred || r.Ratio <= bar
			rows = append(rows, r)
		}
	}
	if fs := got["ours/400"]; fs != nil {
		kb := median(fs, func(f figures) float64 { return f.AddedKB })
		rows = append(rows, row{ID: "proxy.kb_per_idle_conn.absolute", Ours: kb, Peer: "16 KB", Theirs: 16, Ratio: kb / 16, Bar: 1, OK: kb <= 16})
	}
	printTable(benches, got, rows)
	b, err := json.MarshalIndent(map[string]any{"rounds": rounds, "versions": versions(), "rows": rows, "figures": got}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func printTable(benches []bench, got map[string][]figures, rows []row) {
	fmt.Printf("%-22s %9s %8s %9s %8s %9s %8s %7s %8s %7s\n", "", "us/conn", "conn/s", "p99 us", "us/rtt", "p99 us", "s/GB", "Gbit/s", "KB/idle", "MB")
	for _, b := range benches {
		m := func(get func(figures) float64) float64 { return median(got[b.id()], get) }
		fmt.Printf("%-22s %9.1f %8.0f %9.0f %8.2f %9.0f %8.3f %7.2f %8.1f %7.1f\n", b.id(), m(columns[0].get), m(func(f figures) float64 { return f.PerSecond }),
			m(func(f figures) float64 { return f.ConnP99 }), m(columns[1].get), m(func(f figures) float64 { return f.RTTP99 }), m(columns[2].get),
			m(func(f figures) float64 { return f.Gbps }), m(columns[3].get), m(columns[4].get))
	}
	for _, r := range rows {
		mark := " "
		if !r.OK {
			mark = "!"
		}
		fmt.Printf("%s %-44s %9.2f against %-18s %9.2f = %5.2f", mark, r.ID, r.Ours, r.Peer, r.Theirs, r.Ratio)
		if r.Bar > 0 {
			fmt.Printf(" (bar %.2f)", r.Bar)
		}
		fmt.Println()
	}
}

func versions() map[string]string {
	out := map[string]string{}
	for name, args := range map[string][]string{"envoy": {envoyPath, "--version"}, "haproxy": {"haproxy", "-v"}, "nginx": {"nginx", "-v"}, "xds-manager": {managerPath, "--version"}} {
		b, err := exec.CommandContext(context.Background(), args[0], args[1:]...).CombinedOutput()
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
		out[name] = strings.TrimSpace(first)
	}
	return out
}
