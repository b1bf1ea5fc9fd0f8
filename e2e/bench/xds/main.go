// Command xds measures the way from a changed snapshot to Envoy's
// acknowledgement, and what is lost on it.
//
// The peer is a manager written the usual way (go-control-plane's snapshot
// cache, a match on each chain) with the same Envoy and the same snapshots. Both
// are timed from the moment the file is in place.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/densityops/oooi/e2e/proxy"
)

var envoyPath, managerPath, peerPath string

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// row is one comparison.
type row struct {
	ID     string  `json:"id"`
	Ours   float64 `json:"ours"`
	Peer   string  `json:"peer,omitempty"`
	Theirs float64 `json:"theirs,omitempty"`
	Ratio  float64 `json:"ratio,omitempty"`
	Bar    float64 `json:"bar,omitempty"`
	OK     bool    `json:"ok"`
}

func run(args []string) error {
	fs := flag.NewFlagSet("bench-xds", flag.ContinueOnError)
	fs.StringVar(&managerPath, "manager", "bin/xds-manager", "xds-manager")
	fs.StringVar(&peerPath, "peer", "bin/bench-xds-peer", "the peer")
	fs.StringVar(&envoyPath, "envoy", "bin/tools/envoy", "Envoy")
	changes := fs.Int("changes", 100, "changes of each size")
	out := fs.String("out", "bench-out/xds.json", "where the figures go")
	sizes := fs.String("routes", "40,400,4000", "sizes")
	idle := fs.Duration("soak", 0, "hold idle connections for that long, and do nothing else")
	if err := fs.Parse(args); err != nil {
		return err
	}
	ctx := context.Background()
	if *idle > 0 {
		r, err := soak(ctx, *idle)
		if err != nil {
			return fmt.Errorf("soak: %w", err)
		}
		return report(*out, int(*idle/changeEvery), []row{r})
	}
	var rows []row
	for size := range strings.SplitSeq(*sizes, ",") {
		routes, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		bars := map[int]float64{400: 100, 4000: 500}
		got, err := compare(ctx, routes, *changes)
		if err != nil {
			return fmt.Errorf("%d routes: %w", routes, err)
		}
		rows = append(rows, got.rows(routes, bars[routes])...)
	}
	more, err := resource(ctx, *changes)
	if err != nil {
		return fmt.Errorf("from the resource: %w", err)
	}
	rows = append(rows, more...)
	again, err := restart(ctx)
	if err != nil {
		return fmt.Errorf("restarting: %w", err)
	}
	rows = append(rows, again)
	lost, err := churn(ctx)
	if err != nil {
		return fmt.Errorf("coming and going: %w", err)
	}
	rows = append(rows, row{ID: "xds.connections_lost_while_1000_attachments_come_and_go", Ours: float64(lost), OK: lost == 0})
	return report(*out, *changes, rows)
}

// report prints a table and writes the figures.
func report(out string, rounds int, rows []row) error {
	for _, r := range rows {
		fmt.Printf("%-60s %9.1f", r.ID, r.Ours)
		if r.Peer != "" {
			fmt.Printf("  against %-22s %9.1f = %.2f", r.Peer, r.Theirs, r.Ratio)
		}
		if r.Bar > 0 {
			fmt.Printf("  (bar %.0f)", r.Bar)
		}
		if !r.OK {
			fmt.Print("  missed")
		}
		fmt.Println()
	}
	b, err := json.MarshalIndent(map[string]any{"rounds": rounds, "versions": versions(), "rows": rows}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(b, '\n'), 0o644)
}

// sample is what one manager showed at one size.
type sample struct {
	latencies  []float64
	managerCPU float64
	envoyCPU   float64
	envoyMB    float64
	managerMB  float64
}

func (s sample) at(q float64) float64 { return s.latencies[int(q*float64(len(s.latencies)-1))] }

type pair struct{ ours, peer sample }

// compare takes turns: each change goes to ours and to the peer, so that a busy
// moment of the machine falls on both.
func compare(ctx context.Context, routes, changes int) (pair, error) {
	w := world{attachments: routes / routesOfEach}
	ours, err := begin(ctx, w, (*rig).startOurs)
	if ours != nil {
		defer ours.close()
	}
	if err != nil {
		return pair{}, err
	}
	peer, err := begin(ctx, w, (*rig).startPeer)
	if peer != nil {
		defer peer.close()
	}
	if err != nil {
		return pair{}, fmt.Errorf("peer: %w", err)
	}
	var p pair
	for i := 1; i <= changes; i++ {
		version := fmt.Sprintf("v%d", i)
		for r, s := range map[*rig]*sample{ours: &p.ours, peer: &p.peer} {
			before := [2]float64{cpu(r.manager), cpu(r.envoy)}
			took, err := r.publish(w.change(i), version, time.Minute)
			if err != nil {
				return pair{}, err
			}
			s.latencies = append(s.latencies, float64(took.Microseconds())/1000)
			s.managerCPU += (cpu(r.manager) - before[0]) * 1000 / float64(changes)
			s.envoyCPU += (cpu(r.envoy) - before[1]) * 1000 / float64(changes)
		}
	}
	for r, s := range map[*rig]*sample{ours: &p.ours, peer: &p.peer} {
		slices.Sort(s.latencies)
		s.envoyMB, s.managerMB = rss(r.envoy), rss(r.manager)
	}
	return p, nil
}

func (p pair) rows(routes int, bar float64) []row {
	one := func(id string, get func(sample) float64, bar float64) row {
		r := row{ID: fmt.Sprintf("xds.%s.%d", id, routes), Ours: get(p.ours), Peer: "go-control-plane cache", Theirs: get(p.peer), Bar: bar}
		if r.Theirs > 0 {
			r.Ratio = r.Ours / r.Theirs
		}
		r.OK = bar == 0 || r.Ours < bar
		return r
	}
	return []row{
		one("change_to_ack_p50_ms", func(s sample) float64 { return s.at(0.5) }, 0),
		one("change_to_ack_p99_ms", func(s sample) float64 { return s.at(0.99) }, bar),
		one("manager_cpu_ms_per_change", func(s sample) float64 { return s.managerCPU }, 0),
		one("envoy_cpu_ms_per_change", func(s sample) float64 { return s.envoyCPU }, 0),
		one("envoy_mb", func(s sample) float64 { return s.envoyMB }, 0),
		one("manager_mb", func(s sample) float64 { return s.managerMB }, 0),
	}
}

// The steady attachments keep their connections while the others come and go.
const (
	churnAttachments = 110
	steady           = 10
	held             = 500
)

// churn holds connections of the first attachments while a thousand others come
// and go, ten at a time.
func churn(ctx context.Context) (lost int, err error) {
	w := world{attachments: churnAttachments}
	r, err := begin(ctx, w, (*rig).startOurs)
	if r != nil {
		defer r.close()
	}
	if err != nil {
		return 0, err
	}
	b, err := proxy.NewBackend(r.host, "konnectivity", netip.MustParseAddrPort(backendIP+":8091"))
	if err != nil {
		return 0, err
	}
	defer b.Close()
	open, err := openSteady(ctx, r)
	if err != nil {
		return 0, err
	}
	for i := 1; i <= 200; i++ {
		if _, err := r.publish(w.without(i), fmt.Sprintf("v%d", i), time.Minute); err != nil {
			return 0, err
		}
	}
	return held - echoing(open), nil
}

// without is the world with ten of the unsteady attachments away in every odd
// step: in two hundred steps a thousand go and come back.
func (w world) without(i int) world {
	if i%2 == 1 {
		w.absent = map[int]bool{}
		for k := range 10 {
			w.absent[steady+(5*i+k)%(churnAttachments-steady)] = true
		}
	}
	return w
}

func openSteady(ctx context.Context, r *rig) ([]*net.TCPConn, error) {
	var open []*net.TCPConn
	for i := range held {
		hello := proxy.Named(fmt.Sprintf(konnectivityOf, i%steady))
		c, name := proxy.Open(ctx, r.host, netip.Addr{}, netip.MustParseAddrPort(serverIP+":443"), hello, 0)
		if c == nil {
			return nil, fmt.Errorf("connection %d: %s", i, name)
		}
		open = append(open, c)
	}
	return open, nil
}

func echoing(cs []*net.TCPConn) int {
	n := 0
	for _, c := range cs {
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Write([]byte{'x'}); err != nil {
			continue
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			n++
		}
	}
	return n
}

func versions() map[string]string {
	out := map[string]string{"peer": "go-control-plane v0.14.0"}
	for name, path := range map[string]string{"envoy": envoyPath, "xds-manager": managerPath} {
		if b, err := exec.CommandContext(context.Background(), path, "--version").Output(); err == nil {
			out[name] = strings.TrimSpace(string(b))
		}
	}
	return out
}
