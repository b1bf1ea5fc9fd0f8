package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

// rig is one server and one client, joined by a bridge.
type rig struct {
	dir    string
	client *lab.Host
	server *lab.Process
	close  func()
}

func newRig(ctx context.Context, s server, clusters int) (_ *rig, err error) {
	l, err := lab.New()
	if err != nil {
		return nil, err
	}
	r := &rig{}
	r.close = func() {
		l.Close()
		_ = os.RemoveAll(r.dir)
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.dir, err = os.MkdirTemp("/tmp", "oooi-bench-"); err != nil {
		return nil, err
	}
	h, err := r.hosts(ctx, l)
	if err != nil {
		return nil, err
	}
	args, err := s.configure(r.dir, clusters)
	if err != nil {
		return nil, err
	}
	if err = r.questions(clusters); err != nil {
		return nil, err
	}
	if r.server, err = h.Start(lab.Spec{Args: args, Env: s.env}); err != nil {
		return nil, err
	}
	err = lab.Until(ctx, 20*time.Second, "the first answer", func(ctx context.Context) error {
		if err := r.server.Running(); err != nil {
			return err
		}
		out, err := r.dnsperf(ctx, "-n", "1", "-c", "1", "-t", "1", "-l", "1")
		if err == nil && !strings.Contains(out, "NOERROR") {
			err = errors.New("no answer")
		}
		return err
	})
	return r, err
}

// hosts lays out the network and returns the server's side.
func (r *rig) hosts(ctx context.Context, l *lab.Lab) (h *lab.Host, err error) {
	if h, err = l.Host("server"); err != nil {
		return nil, err
	}
	if r.client, err = l.Host("client"); err != nil {
		return nil, err
	}
	return h, errors.Join(
		h.Bridge(ctx, "br0"),
		h.Addr(ctx, "br0", netip.MustParsePrefix(serverIP+"/24")),
		r.client.Plug(ctx, h, "br0", lab.Link{Device: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix(clientIP + "/24")}}),
	)
}

// questions writes what dnsperf asks: every exact name once, and as many names
// below wildcards as 2 a cluster, in an order that each server sees alike.
func (r *rig) questions(clusters int) error {
	var q []string
	each(clusters, func(name string) { q = append(q, name+" A") })
	for i := range clusters {
		for j := range 2 {
			q = append(q, fmt.Sprintf("x%d.apps.hcp-%d.%s A", j, i, zone))
		}
	}
	rand.New(rand.NewPCG(7, 7)).Shuffle(len(q), func(i, j int) { q[i], q[j] = q[j], q[i] }) //nolint:gosec // the same in each run
	return write(filepath.Join(r.dir, "questions"), strings.Join(q, "\n")+"\n")
}

func (r *rig) dnsperf(ctx context.Context, args ...string) (string, error) {
	return r.client.Run(ctx, append([]string{"dnsperf", "-s", serverIP, "-d", filepath.Join(r.dir, "questions")}, args...)...)
}

// measure runs one round of one server.
func measure(ctx context.Context, s server, clusters int) (figures, error) {
	r, err := newRig(ctx, s, clusters)
	if err != nil {
		return figures{}, err
	}
	defer r.close()
	low, lowCPU, err := r.load(ctx, "-l", "3", "-Q", "2000", "-c", "4", "-T", "1")
	if err != nil {
		return figures{}, err
	}
	high, highCPU, err := r.load(ctx, "-l", "5", "-c", "16", "-T", "1", "-q", "200")
	if err != nil {
		return figures{}, err
	}
	pid, err := r.server.PID()
	if err != nil {
		return figures{}, err
	}
	return figures{
		CPU: highCPU * 1e6 / high.done, QPS: high.qps,
		LowCPU: lowCPU * 1e6 / low.done, LatencyMS: low.latency * 1e3,
		RSSMB: rss(pid) / 1e6,
	}, nil
}

// asked is what dnsperf said.
type asked struct{ sent, done, lost, qps, latency float64 }

// load runs dnsperf and returns what it said and the CPU seconds that the server
// took for it. Every answer has to be NOERROR.
func (r *rig) load(ctx context.Context, args ...string) (asked, float64, error) {
	pid, err := r.server.PID()
	if err != nil {
		return asked{}, 0, err
	}
	before := cpu(pid)
	out, err := r.dnsperf(ctx, args...)
	if err != nil {
		return asked{}, 0, err
	}
	took := cpu(pid) - before
	a, err := parse(out)
	return a, took, err
}

func parse(out string) (asked, error) {
	get := func(pattern string) float64 {
		m := regexp.MustCompile(pattern + `\s+([\d.]+)`).FindStringSubmatch(out)
		if m == nil {
			return -1
		}
		v, _ := strconv.ParseFloat(m[1], 64)
		return v
	}
	a := asked{get("Queries sent:"), get("Queries completed:"), get("Queries lost:"), get("Queries per second:"), get(`Average Latency \(s\):`)}
	if a.done <= 0 || get("NOERROR") != a.done {
		return a, fmt.Errorf("not every answer was NOERROR: %s", out)
	}
	return a, nil
}

// changesUnderLoad replaces the snapshot again and again while dnsperf asks, and
// says how many queries were lost and how many changes came into force.
func changesUnderLoad(ctx context.Context, ours server) (lost, changes int, err error) {
	changes = 1000
	r, err := newRig(ctx, ours, middle)
	if err != nil {
		return 0, 0, err
	}
	defer r.close()
	p, err := r.client.Start(lab.Spec{Args: []string{"dnsperf", "-s", serverIP, "-d", filepath.Join(r.dir, "questions"), "-l", "600", "-Q", "5000", "-c", "8", "-T", "1"}})
	if err != nil {
		return 0, 0, err
	}
	for i := range changes {
		if err := writeSnapshot(r.dir, middle, fmt.Sprintf("198.18.0.%d", 10+i%100)); err != nil {
			return 0, 0, err
		}
		if err := r.inForce(i + 2); err != nil {
			return 0, 0, err
		}
	}
	if err := p.Signal(syscall.SIGINT); err != nil {
		return 0, 0, err
	}
	if err := p.Wait(20 * time.Second); err != nil {
		return 0, 0, err
	}
	a, err := parse(p.Output())
	return int(a.sent - a.done), changes, err
}

// inForce waits until the server has said n times that a snapshot is in force.
func (r *rig) inForce(n int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); strings.Count(r.server.Output(), "in force") < n; <-tick.C {
		if time.Since(began) > 5*time.Second {
			return fmt.Errorf("change %d did not come into force", n)
		}
	}
	return nil
}

// cpu is user and system time in seconds of a process with all its threads.
func cpu(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	const ticks = 100 // USER_HZ, fixed in the kernel's interface
	return (user + system) / ticks
}

// rss is the resident size of a process in bytes.
func rss(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseFloat(strings.Fields(string(data))[1], 64)
	return pages * float64(os.Getpagesize())
}
