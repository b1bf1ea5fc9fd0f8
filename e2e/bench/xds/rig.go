package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

// rig is one manager with one Envoy in a network of their own.
type rig struct {
	lab      *lab.Lab
	host     *lab.Host
	dir      string
	snapshot string
	envoy    *lab.Process
	manager  *lab.Process
	accepted chan acceptance
	// rejected is when Envoy's rejections were heard of.
	rejected chan time.Time
	// kick asks the peer to read the file again; ours watches it.
	kick io.Writer
}

// acceptance says when which version was acknowledged by Envoy.
type acceptance struct {
	version string
	at      time.Time
	err     string
}

func newRig(ctx context.Context) (*rig, error) {
	l, err := lab.New()
	if err != nil {
		return nil, err
	}
	r := &rig{lab: l, accepted: make(chan acceptance, 1024), rejected: make(chan time.Time, 1024)}
	if r.host, err = l.Host("bench"); err != nil {
		return nil, err
	}
	for _, ip := range []string{serverIP, backendIP} {
		if err := r.host.Addr(ctx, "lo", netip.PrefixFrom(netip.MustParseAddr(ip), 32)); err != nil {
			return nil, err
		}
	}
	if err := r.host.Route(ctx, "local 198.19.0.0/16 dev lo"); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp("/tmp", "oooi-bench-"); err != nil {
		return nil, err
	}
	r.snapshot = r.dir + "/snapshot.json"
	return r, nil
}

func (r *rig) close() {
	r.lab.Close()
	_ = os.RemoveAll(r.dir)
}

// begin starts a manager and Envoy with a world, and waits until it is in force.
// Caller must close the rig, also one that comes with an error.
func begin(ctx context.Context, w world, start func(*rig, context.Context) error) (*rig, error) {
	r, err := newRig(ctx)
	if err != nil {
		return nil, err
	}
	content, err := w.encode("v0")
	if err == nil {
		err = replace(r.snapshot, content)
	}
	if err == nil {
		err = start(r, ctx)
	}
	if err == nil {
		_, err = r.wait(time.Now(), "v0", 2*time.Minute)
	}
	return r, err
}

// lines hands every complete line to a function.
type lines struct {
	mu   sync.Mutex // guards rest
	rest []byte
	to   func([]byte)
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		l.to(l.rest[:i])
		l.rest = l.rest[i+1:]
	}
}

// heard reads both managers' words: our log, the peer's lines.
func (r *rig) heard(line []byte) {
	var l struct {
		Msg, Snapshot, Version, Error string
		MS                            float64
	}
	if json.Unmarshal(line, &l) != nil {
		return
	}
	switch {
	case l.Msg == "envoy rejected configuration":
		r.rejected <- time.Now()
	case l.Msg == "accepted by envoy":
		r.accepted <- acceptance{version: l.Snapshot, at: time.Now()}
	case l.Version != "" && l.Msg == "":
		r.accepted <- acceptance{version: l.Version, at: time.Now(), err: l.Error}
	}
}

func (r *rig) startOurs(ctx context.Context) error { return r.startWith(ctx) }

func (r *rig) startWith(ctx context.Context, args ...string) error {
	p, err := r.host.Start(lab.Spec{Log: &lines{to: r.heard}, Args: append([]string{
		managerPath, "serve", "--snapshot", r.snapshot,
		"--xds-socket", r.dir + "/xds.sock", "--admin-socket", r.dir + "/admin.sock", "--drain-time", "600s", "--listen", podIP + ":9090",
	}, args...)})
	if err != nil {
		return err
	}
	r.manager = p
	return r.startEnvoy(ctx)
}

func (r *rig) startPeer(ctx context.Context) error {
	in, out := io.Pipe()
	r.kick = out
	p, err := r.host.Start(lab.Spec{Log: &lines{to: r.heard}, Stdin: in, Args: []string{peerPath, r.snapshot, r.dir + "/xds.sock"}})
	if err != nil {
		return err
	}
	r.manager = p
	return r.startEnvoy(ctx)
}

func (r *rig) startEnvoy(ctx context.Context) error {
	boot := r.dir + "/bootstrap.yaml"
	if _, err := r.host.Run(ctx, managerPath, "bootstrap", "--out", boot, "--xds-socket", r.dir+"/xds.sock", "--admin-socket", r.dir+"/admin.sock"); err != nil {
		return err
	}
	p, err := r.host.Start(lab.Spec{Log: io.Discard, Args: []string{
		envoyPath, "-c", boot, "--concurrency", "2", "--disable-hot-restart",
		"-l", "error", "--drain-time-s", "600", "--drain-strategy", "immediate",
	}})
	r.envoy = p
	return err
}

// publish puts a world in place and waits for Envoy's acknowledgement of it.
func (r *rig) publish(w world, version string, limit time.Duration) (time.Duration, error) {
	content, err := w.encode(version)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := replace(r.snapshot, content); err != nil {
		return 0, err
	}
	if r.kick != nil {
		if _, err := io.WriteString(r.kick, "\n"); err != nil {
			return 0, err
		}
	}
	return r.wait(began, version, limit)
}

func (r *rig) wait(began time.Time, version string, limit time.Duration) (time.Duration, error) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		select {
		case a := <-r.accepted:
			if a.version == version && a.err != "" {
				return 0, fmt.Errorf("envoy rejected %s: %s", version, a.err[max(0, len(a.err)-500):])
			}
			if a.version == version {
				return a.at.Sub(began), nil
			}
		case <-timeout.C:
			return 0, errors.Join(fmt.Errorf("%s not acknowledged within %s; the manager said %s", version, limit, tail(r.manager.Output())), r.manager.Running())
		}
	}
}

func tail(s string) string { return strings.TrimSpace(s[max(0, len(s)-800):]) }
