package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
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
	IdleKB    float64 `json:"kb_per_idle_conn"`
	BaseMB    float64 `json:"mb_idle"`
}

// round runs one bench once, in a network of its own.
func round(ctx context.Context, b bench) (figures, error) {
	l, err := lab.New()
	if err != nil {
		return figures{}, err
	}
	defer l.Close()
	h, err := l.Host("bench")
	if err != nil {
		return figures{}, err
	}
	for _, ip := range []string{proxyIP, "198.18.0.9"} {
		if err := h.Addr(ctx, "lo", netip.PrefixFrom(netip.MustParseAddr(ip), 32)); err != nil {
			return figures{}, err
		}
	}
	// Envoy reads no configuration below /dev, so memory file systems are out.
	dir, err := os.MkdirTemp("/tmp", "oooi-bench-")
	if err != nil {
		return figures{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := h.Start(lab.Spec{Args: []string{self, "backend", backend}}); err != nil {
		return figures{}, err
	}
	proxy, err := start(ctx, h, b, dir)
	if err != nil {
		return figures{}, err
	}
	m := meter{h: h, proxy: proxy, name: target(b.routes)}
	if err := m.answers(ctx); err != nil {
		return figures{}, fmt.Errorf("%w: %s", err, proxy.Output())
	}
	return m.all(ctx)
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

func (m meter) all(ctx context.Context) (f figures, err error) {
	measure := func(kind string, seconds float64, workers int) (r result, cpu float64) {
		if err != nil {
			return result{}, 0
		}
		before := m.cpu()
		r, err = m.load(ctx, kind, seconds, workers)
		if err == nil && (r.N == 0 || r.Errors > r.N/100) {
			err = fmt.Errorf("%s: %d operations, %d errors", kind, r.N, r.Errors)
		}
		return r, m.cpu() - before
	}
	_, _ = measure("conn", 0.5, 32)
	r, cpu := measure("conn", 3, 32)
	f.ConnCPU, f.PerSecond, f.ConnP99 = cpu*1e6/float64(r.N), float64(r.N)/r.Seconds, r.P99us
	r, cpu = measure("rtt", 2, 32)
	f.RTTCPU, f.RTTP99 = cpu*1e6/float64(r.N), r.P99us
	r, cpu = measure("bulk", 3, 2)
	f.GBCPU, f.Gbps = cpu/(float64(r.Bytes)/1e9), float64(r.Bytes)*8/r.Seconds/1e9
	if err != nil {
		return f, err
	}
	before := m.pss()
	f.BaseMB = before / 1024
	f.IdleKB, err = m.idle(before)
	return f, err
}

const idleConnections = 2000

func (m meter) idle(before float64) (float64, error) {
	in, keep := io.Pipe()
	defer func() { _ = keep.Close() }()
	p, err := m.h.Start(lab.Spec{Args: []string{self, "hold", frontend, m.name, strconv.Itoa(idleConnections)}, Stdin: in})
	if err != nil {
		return 0, err
	}
	err = lab.Until(context.Background(), 30*time.Second, "the idle connections are open", func(context.Context) error {
		if err := p.Running(); err != nil {
			return err
		}
		if !strings.Contains(p.Output(), strconv.Itoa(idleConnections)) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	return (m.pss() - before) / idleConnections, err
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

// ticksPerSecond is USER_HZ, 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// cpu is the seconds that the proxy has used so far.
func (m meter) cpu() float64 {
	ticks := 0
	for _, pid := range m.tree() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, i := range []int{11, 12} {
			n, _ := strconv.Atoi(f[i])
			ticks += n
		}
	}
	return float64(ticks) / ticksPerSecond
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
