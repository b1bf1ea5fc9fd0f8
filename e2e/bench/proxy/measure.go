package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

// figures are what one round says of one bench. Lower is better but for Gbps
// and PerSecond.
type figures struct {
	ConnCPU   float64 `json:"conn_cpu_us"`
	PerSecond float64 `json:"conn_per_s"`
	ConnP99   float64 `json:"conn_p99_us"`
	RTTCPU    float64 `json:"rtt_cpu_us"`
	RTTP99    float64 `json:"rtt_p99_us"`
	GBCPU     float64 `json:"gb_cpu_s"`
	Gbps      float64 `json:"gbit_per_s"`
	// IdleKB is what one more idle connection takes beside 2,000 others, AddedKB
	// what each of those 2,000 added to a proxy that had free memory left.
	IdleKB  float64 `json:"kb_per_idle_conn"`
	AddedKB float64 `json:"kb_added_per_idle_conn"`
	BaseMB  float64 `json:"mb_idle"`
}

// running is a bench that is up, with what was measured so far.
type running struct {
	bench
	meter
	lab *lab.Lab
	dir string
	sum map[string]*total
}

// total holds what each slice of one kind of load showed; medians of it count.
type total struct{ perOp, perGB, rate, gbps, p99 []float64 }

func (r *running) close() {
	r.lab.Close()
	_ = os.RemoveAll(r.dir)
}

// up starts a bench in a network of its own and waits until it answers.
func up(ctx context.Context, b bench) (*running, error) {
	l, err := lab.New()
	if err != nil {
		return nil, err
	}
	r := &running{bench: b, lab: l, sum: map[string]*total{}}
	h, err := l.Host("bench")
	if err != nil {
		return r, err
	}
	for _, ip := range []string{proxyIP, "198.18.0.9"} {
		if err := h.Addr(ctx, "lo", netip.PrefixFrom(netip.MustParseAddr(ip), 32)); err != nil {
			return r, err
		}
	}
	// A fast proxy closes more connections to the one backend in a minute than there
	// are ports; who closes first waits that long.
	for key, value := range map[string]string{"net.ipv4.ip_local_port_range": "1024 65000", "net.ipv4.tcp_tw_reuse": "1"} {
		if err := h.Sysctl(ctx, key, value); err != nil {
			return r, err
		}
	}
	// Envoy reads no configuration below /dev, so memory file systems are out.
	if r.dir, err = os.MkdirTemp("/tmp", "oooi-bench-"); err != nil {
		return r, err
	}
	if _, err := h.Start(lab.Spec{Args: []string{self, "backend", backend}}); err != nil {
		return r, err
	}
	proxy, err := start(ctx, h, b, r.dir)
	if err != nil {
		return r, err
	}
	r.meter = meter{h: h, proxy: proxy, name: target(b.routes)}
	if err := r.answers(ctx); err != nil {
		return r, fmt.Errorf("%w: %s", err, proxy.Output())
	}
	return r, nil
}

// turns are the loads of a round. They are short and the benches take turns, so
// that a busy moment of the machine falls on all of them.
var turns = []struct {
	kind    string
	times   int
	seconds float64
	workers int
}{{"conn", 9, 0.5, 32}, {"rtt", 5, 1.5, 32}, {"bulk", 7, 0.5, 2}}

// round measures all benches once, by these loads.
func round(ctx context.Context, benches []bench, loads []string) (map[string]figures, error) {
	var all []*running
	defer func() {
		for _, r := range all {
			r.close()
		}
	}()
	for _, b := range benches {
		r, err := up(ctx, b)
		if r != nil {
			all = append(all, r)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.id(), err)
		}
	}
	for _, s := range turns {
		if !slices.Contains(loads, s.kind) {
			continue
		}
		for range s.times {
			for _, r := range all {
				if err := r.slice(ctx, s.kind, s.seconds, s.workers); err != nil {
					return nil, fmt.Errorf("%s: %w", r.id(), err)
				}
			}
		}
	}
	out := map[string]figures{}
	for _, r := range all {
		f, err := r.figures(slices.Contains(loads, "idle"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.id(), err)
		}
		out[r.id()] = f
	}
	return out, nil
}

func (r *running) slice(ctx context.Context, kind string, seconds float64, workers int) error {
	before := r.cpu()
	got, err := r.load(ctx, kind, seconds, workers)
	if err != nil {
		return err
	}
	if got.N == 0 || got.Errors > got.N/50 {
		return fmt.Errorf("%s: %d operations, %d errors", kind, got.N, got.Errors)
	}
	t := r.of(kind)
	cpu := r.cpu() - before
	t.perOp = append(t.perOp, cpu*1e6/float64(got.N))
	t.perGB = append(t.perGB, cpu/(float64(max(got.Bytes, 1))/1e9))
	t.rate = append(t.rate, float64(got.N)/got.Seconds)
	t.gbps = append(t.gbps, float64(got.Bytes)*8/got.Seconds/1e9)
	t.p99 = append(t.p99, got.P99us)
	return nil
}

func (r *running) figures(idle bool) (figures, error) {
	conn, rtt, bulk := r.of("conn"), r.of("rtt"), r.of("bulk")
	f := figures{
		ConnCPU: middle(conn.perOp), PerSecond: middle(conn.rate), ConnP99: middle(conn.p99),
		RTTCPU: middle(rtt.perOp), RTTP99: middle(rtt.p99), GBCPU: middle(bulk.perGB), Gbps: middle(bulk.gbps),
	}
	before := r.pss()
	f.BaseMB = before / 1024
	if !idle {
		return f, nil
	}
	var err error
	f.AddedKB, f.IdleKB, err = r.idle(before)
	return f, err
}

// of is what one kind of load showed, nothing where it did not run.
func (r *running) of(kind string) *total {
	if r.sum[kind] == nil {
		r.sum[kind] = &total{}
	}
	return r.sum[kind]
}

func start(ctx context.Context, h *lab.Host, b bench, dir string) (*lab.Process, error) {
	programs, err := b.configure(b, dir)
	if err != nil {
		return nil, err
	}
	var p *lab.Process
	for _, args := range programs {
		if len(args) > 1 && args[1] == "bootstrap" {
			if _, err := h.Run(ctx, args...); err != nil {
				return nil, err
			}
			continue
		}
		if p, err = h.Start(lab.Spec{Args: args, Log: io.Discard}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

type meter struct {
	h     *lab.Host
	proxy *lab.Process
	name  string
}

func (m meter) answers(ctx context.Context) error {
	return lab.Until(ctx, time.Minute, "the proxy answers", func(ctx context.Context) error {
		if err := m.proxy.Running(); err != nil {
			return err
		}
		r, err := m.load(ctx, "conn", 0.1, 1)
		if err == nil && r.N == 0 {
			err = fmt.Errorf("no answer yet")
		}
		return err
	})
}

func (m meter) load(ctx context.Context, kind string, seconds float64, workers int) (result, error) {
	out, err := m.h.Run(ctx, self, kind, frontend, m.name, fmt.Sprint(seconds), strconv.Itoa(workers))
	if err != nil {
		return result{}, err
	}
	var r result
	return r, json.Unmarshal([]byte(out), &r)
}

const idleConnections = 2000

// idle measures idle connections in KB each: the first ones go partly into what
// the loads before left free, those that come after them show what one takes.
func (m meter) idle(before float64) (first, next float64, err error) {
	release, err := m.holdIdle()
	defer release()
	if err != nil {
		return 0, 0, err
	}
	held := m.pss()
	more, err := m.holdIdle()
	defer more()
	return (held - before) / idleConnections, (m.pss() - held) / idleConnections, err
}

// holdIdle opens idle connections and keeps them until it is told to release them.
func (m meter) holdIdle() (release func(), err error) {
	in, keep := io.Pipe()
	release = func() { _ = keep.Close() }
	p, err := m.h.Start(lab.Spec{Args: []string{self, "hold", frontend, m.name, strconv.Itoa(idleConnections)}, Stdin: in})
	if err != nil {
		return release, err
	}
	return release, lab.Until(context.Background(), 30*time.Second, "the idle connections are open", func(context.Context) error {
		if err := p.Running(); err != nil {
			return err
		}
		if !strings.Contains(p.Output(), strconv.Itoa(idleConnections)) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

// tree is the proxy's process and all below it.
func (m meter) tree() []int {
	pid, err := m.proxy.PID()
	if err != nil {
		return nil
	}
	out := []int{pid}
	for i := 0; i < len(out); i++ {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", out[i]))
		for _, t := range tasks {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", out[i], t.Name()))
			for f := range strings.FieldsSeq(string(b)) {
				if n, err := strconv.Atoi(f); err == nil {
					out = append(out, n)
				}
			}
		}
	}
	return out
}

// cpu is the seconds that the proxy's threads have run so far, by the
// scheduler's own clock: clock ticks are too coarse for a short slice.
func (m meter) cpu() float64 {
	var sum float64
	for _, pid := range m.tree() {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		for _, t := range tasks {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, t.Name()))
			if err != nil {
				continue
			}
			ran, _, _ := strings.Cut(string(b), " ")
			n, _ := strconv.ParseFloat(ran, 64)
			sum += n
		}
	}
	return sum / 1e9
}

// pss is the proxy's memory in KB, shared pages by their share.
func (m meter) pss() float64 {
	sum := 0
	for _, pid := range m.tree() {
		f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			if v, ok := strings.CutPrefix(s.Text(), "Pss:"); ok {
				n, _ := strconv.Atoi(strings.Fields(v)[0])
				sum += n
			}
		}
		_ = f.Close()
	}
	return float64(sum)
}
