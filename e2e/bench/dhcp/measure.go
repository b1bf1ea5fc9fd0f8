package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

// stand is a server's host and its clients', joined by a switch.
type stand struct {
	lab     *lab.Lab
	clients *lab.Host
	process *lab.Process
	dir     string
}

func newStand(ctx context.Context, s server, last netip.Addr) (*stand, error) {
	l, err := lab.New()
	if err != nil {
		return nil, err
	}
	st := &stand{lab: l}
	if st.dir, err = os.MkdirTemp("", "bench-dhcp-"); err != nil {
		return st, err
	}
	sw, err := l.Host("switch")
	if err != nil {
		return st, err
	}
	if err := sw.Bridge(ctx, "br0"); err != nil {
		return st, err
	}
	host, err := l.Host("server")
	if err != nil {
		return st, err
	}
	if st.clients, err = l.Host("clients"); err != nil {
		return st, err
	}
	for h, ip := range map[*lab.Host]string{host: serverIP, st.clients: clientIP} {
		p := netip.PrefixFrom(netip.MustParseAddr(ip), prefix)
		if err := h.Plug(ctx, sw, "br0", lab.Link{Device: "eth0", Addresses: []netip.Prefix{p}}); err != nil {
			return st, err
		}
	}
	args, env, err := s.start(st.dir, first, last)
	if err != nil {
		return st, err
	}
	st.process, err = host.Start(lab.Spec{Args: args, Env: env})
	return st, err
}

func (st *stand) close() {
	st.lab.Close()
	if st.dir != "" {
		_ = os.RemoveAll(st.dir) // a temporary directory
	}
}

// perf runs perfdhcp, which is a relay with many clients behind it.
func (st *stand) perf(ctx context.Context, args ...string) (string, error) {
	out, err := st.clients.Run(ctx, append(append([]string{"perfdhcp", "-4", "-l", clientIP}, args...), serverIP)...)
	// It exits with 3 when an exchange is incomplete, which a flood always has.
	if err != nil && !strings.Contains(err.Error(), "exit status 3") {
		return "", err
	}
	return out, nil
}

var received = regexp.MustCompile(`received packets: (\d+)`)

// acked is how many REQUESTs were acknowledged, and after how many ms.
func acked(out string) (n, ms float64) {
	_, part, ok := strings.Cut(out, "Statistics for: REQUEST-ACK")
	if !ok {
		return 0, 0
	}
	if m := received.FindStringSubmatch(part); m != nil {
		n, _ = strconv.ParseFloat(m[1], 64)
	}
	if m := regexp.MustCompile(`avg delay: ([\d.]+)`).FindStringSubmatch(part); m != nil {
		ms, _ = strconv.ParseFloat(m[1], 64)
	}
	return n, ms
}

// flood measures one server.
func flood(ctx context.Context, s server) (figures, error) {
	st, err := newStand(ctx, s, last)
	if st != nil {
		defer st.close()
	}
	if err != nil {
		return figures{}, err
	}
	err = lab.Until(ctx, 20*time.Second, "the server to answer", func(ctx context.Context) error {
		if err := st.process.Running(); err != nil {
			return err
		}
		out, err := st.perf(ctx, "-n", "5", "-r", "10", "-R", "5", "-p", "3", "-W", "500000")
		if n, _ := acked(out); err == nil && n == 0 {
			err = errors.New("no ACK")
		}
		return err
	})
	if err != nil {
		return figures{}, err
	}
	out, err := st.perf(ctx, "-r", "300", "-R", "20000", "-b", "mac=02:00:00:00:00:00", "-p", "5")
	if err != nil {
		return figures{}, err
	}
	_, low := acked(out)
	pid, err := st.process.PID()
	if err != nil {
		return figures{}, err
	}
	before, err := cpu(pid)
	if err != nil {
		return figures{}, err
	}
	const seconds = 6
	if out, err = st.perf(ctx, "-r", "15000", "-R", "120000", "-b", "mac=04:00:00:00:00:00", "-p", strconv.Itoa(seconds)); err != nil {
		return figures{}, err
	}
	after, err := cpu(pid)
	n, _ := acked(out)
	if n == 0 {
		return figures{}, errors.New("no ACK in a flood")
	}
	return figures{CPU: (after - before) * 1e6 / n, Rate: n / seconds, LowMS: low, Durable: s.durable}, err
}

// cpu is the user and system seconds of a process.
func cpu(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100, nil // USER_HZ
}

func rssMB(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kb / 1024, err
}

// linkFigures are of clients on the server's own link.
type linkFigures struct {
	Clients    int     `json:"clients"`
	StormS     float64 `json:"storm_s"`
	RenewP50MS float64 `json:"renew_p50_ms"`
	RenewP99MS float64 `json:"renew_p99_ms"`
	Twice      int     `json:"twice"`
	Naks       int     `json:"naks"`
	RSSMB      float64 `json:"rss_mb"`
}

// onLink has n clients boot at once and then renew.
func onLink(ctx context.Context, s server, n int) (linkFigures, error) {
	st, err := newStand(ctx, s, netip.MustParseAddr("198.18.100.250"))
	if st != nil {
		defer st.close()
	}
	if err != nil {
		return linkFigures{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return linkFigures{}, err
	}
	out, err := st.clients.Run(ctx, self, "clients", "-n", strconv.Itoa(n))
	if err != nil {
		return linkFigures{}, errors.Join(err, st.process.Running())
	}
	var l linkFigures
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		return l, fmt.Errorf("%q: %w", out, err)
	}
	pid, err := st.process.PID()
	if err != nil {
		return l, err
	}
	l.RSSMB, err = rssMB(pid)
	return l, err
}
