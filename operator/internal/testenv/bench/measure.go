package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1 "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// settle attaches every cluster and waits until all is Ready and quiet.
func (b *bench) settle(ctx context.Context) (attached, settled time.Duration, err error) {
	say("attaching %d clusters", b.attachments)
	started := time.Now()
	if err := b.attach(ctx); err != nil {
		return 0, 0, err
	}
	attached = time.Since(started)
	if err := b.allReady(ctx); err != nil {
		return 0, 0, err
	}
	settled = time.Since(started)
	return attached, settled, b.quiet(ctx)
}

// measure settles, rests, restarts, and lets attachments come and go.
func (b *bench) measure(ctx context.Context, rounds int) ([]row, error) {
	if err := b.startOperator(ctx); err != nil {
		return nil, err
	}
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	before, err := writes()
	if err != nil {
		return nil, err
	}
	byResource, err := metrics(writesMetric)
	if err != nil {
		return nil, err
	}
	attached, settled, err := b.settle(ctx)
	if err != nil {
		return nil, err
	}
	after, err := writes()
	if err != nil {
		return nil, err
	}
	say("attached in %.1f s, settled after %.1f s", attached.Seconds(), settled.Seconds())
	if err := b.sayWrites(byResource); err != nil {
		return nil, err
	}
	if err := pause(ctx, 10*time.Second); err != nil {
		return nil, err
	}
	steady, err := writes()
	if err != nil {
		return nil, err
	}
	heap, err := metric("go_memstats_heap_inuse_bytes")
	if err != nil {
		return nil, err
	}
	resident, err := b.resident()
	if err != nil {
		return nil, err
	}
	changes, err := b.changes(ctx, rounds)
	if err != nil {
		return nil, err
	}
	say("p50, p90, p99 and the longest of %d changes: %.0f, %.0f, %.0f, %.0f ms", len(changes),
		percentile(changes, 0.5), percentile(changes, 0.9), percentile(changes, 0.99), percentile(changes, 1))
	return []row{
		barred("operator.settle_s", settled.Seconds(), 60),
		barred("operator.writes_per_attachment", (after-before)/float64(b.attachments), 5),
		barred("operator.writes_in_10_s_at_rest", steady-after, 0),
		barred("operator.rss_mb", resident, 128),
		barred("operator.heap_mb", heap/(1<<20), 128),
		barred("operator.change_to_snapshots_ms_p99", percentile(changes, 0.99), 200),
		barred("operator.change_to_snapshots_ms_p50", percentile(changes, 0.5), 200),
	}, nil
}

// writesMetric counts the operator's writes by verb and resource.
const writesMetric = "oooi_operator_api_writes_total{"

// metrics are the series of the operator that begin with a prefix.
func metrics(prefix string) (map[string]float64, error) {
	resp, err := http.Get("http://" + metricsAddress + "/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	scanner := bufio.NewScanner(resp.Body)
	for scanner.Scan() {
		line := scanner.Text()
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("reading metrics: %w", err)
		}
		out[line[:end]] = value
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no metric %s", prefix)
	}
	return out, scanner.Err()
}

// metric sums a metric of the operator over its labels.
func metric(prefix string) (float64, error) {
	series, err := metrics(prefix)
	sum := 0.0
	for _, v := range series {
		sum += v
	}
	return sum, err
}

func writes() (float64, error) { return metric(writesMetric) }

// sayWrites tells what the attachments have cost, each kind of write by itself.
func (b *bench) sayWrites(before map[string]float64) error {
	after, err := metrics(writesMetric)
	if err != nil {
		return err
	}
	for _, series := range slices.Sorted(maps.Keys(after)) {
		if n := after[series] - before[series]; n > 0 {
			say("  %-84s %8.0f %8.2f", strings.TrimPrefix(series, writesMetric), n, n/float64(b.attachments))
		}
	}
	return nil
}

// quiet waits until the operator has written nothing for three seconds.
func (b *bench) quiet(ctx context.Context) error {
	deadline := time.Now().Add(3 * time.Minute)
	last, since := -1.0, time.Now()
	for {
		n, err := writes()
		switch {
		case err == nil && n == last && time.Since(since) > 3*time.Second:
			return nil
		case err != nil || n != last:
			last, since = n, time.Now()
		}
		if time.Now().After(deadline) {
			return errors.Join(errors.New("the operator does not come to rest"), err)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// stream of one child.
type stream struct {
	kind     string
	arrivals chan arrival
}

// arrival is a snapshot as it came, and when: what the bench does with it takes
// time of its own.
type arrival struct {
	at       time.Time
	snapshot *agentv1.Snapshot
}

// changes lets one attachment more come and go, each time of another Infra, and
// measures until all three snapshots of the Infra have it, and have it no more.
func (b *bench) changes(ctx context.Context, rounds int) ([]time.Duration, error) {
	say("%d attachments come and go", rounds)
	var out []time.Duration
	streams := map[string][]*stream{}
	for i := range b.infras {
		infra := b.infraOf(i)
		for component, suffix := range map[string]string{"dhcpd": "-dhcp", "coredns": "-dns", "xds-manager": "-proxy"} {
			s, err := b.watch(ctx, component, infra+suffix)
			if err != nil {
				return nil, err
			}
			streams[infra] = append(streams[infra], s)
		}
	}
	for round := range rounds {
		i := b.attachments + round%b.infras
		a := b.attachment(i)
		list := streams[b.infraOf(i)]
		for _, s := range list {
			drain(s)
		}
		for _, there := range []bool{true, false} {
			change := func() error { return b.env.Create(ctx, a) }
			if !there {
				change = func() error { return b.env.Client.Delete(ctx, a) }
			}
			took, err := timed(ctx, change, list, name(i), there)
			if err != nil {
				return nil, err
			}
			out = append(out, took)
			if err := b.rest(ctx); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// timed is how long a change takes until every snapshot names the cluster, or
// none does.
func timed(ctx context.Context, change func() error, list []*stream, cluster string, there bool) (time.Duration, error) {
	started, took := time.Now(), time.Duration(0)
	if err := change(); err != nil {
		return 0, fmt.Errorf("changing an attachment: %w", err)
	}
	for _, s := range list {
		at, err := s.until(ctx, cluster, there)
		if err != nil {
			return 0, err
		}
		took = max(took, at.Sub(started))
	}
	return took, nil
}

// rest waits until what the last change has brought about is done: the bar is of
// one change in a system that is otherwise at rest.
func (b *bench) rest(ctx context.Context) error {
	const look, enough = 100 * time.Millisecond, 5
	last := -1.0
	for same := 0; same < enough; {
		n, err := writes()
		if err != nil {
			return err
		}
		if n != last {
			last, same = n, 0
		}
		same++
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
	return nil
}

func drain(s *stream) {
	for {
		select {
		case <-s.arrivals:
		default:
			return
		}
	}
}

// until a snapshot names the cluster, or does not; gives when that one came.
func (s *stream) until(ctx context.Context, cluster string, there bool) (time.Time, error) {
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-timer.C:
			return time.Time{}, fmt.Errorf("the %s snapshot never changed for %s", s.kind, cluster)
		case a := <-s.arrivals:
			wire, err := proto.Marshal(a.snapshot)
			if err != nil {
				return time.Time{}, fmt.Errorf("reading a snapshot: %w", err)
			}
			if bytes.Contains(wire, []byte(cluster)) == there {
				return a.at, nil
			}
		}
	}
}

// watch opens a child's stream as its agent does.
func (b *bench) watch(ctx context.Context, component, child string) (*stream, error) {
	config := &corev1.ConfigMap{}
	if err := b.env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: child}, config); err != nil {
		return nil, fmt.Errorf("reading the ConfigMap of %s: %w", child, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(config.Data["ca.crt"]))
	token, err := b.env.Token(ctx, namespace, child, "oooi-hub")
	if err != nil {
		return nil, err
	}
	creds := credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "oooi-hub." + testenv.Namespace + ".svc", MinVersion: tls.VersionTLS13})
	conn, err := grpc.NewClient(hubAddress, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, fmt.Errorf("dialling the hub: %w", err)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	watch, err := agentv1.NewAgentServiceClient(conn).Watch(ctx, &agentv1.WatchRequest{
		Component: component, Contract: "agent.v1", Namespace: namespace, Name: child,
	})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", child, err)
	}
	s := &stream{kind: component, arrivals: make(chan arrival, 64)}
	first, err := watch.Recv()
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", child, err)
	}
	s.arrivals <- arrival{time.Now(), first.GetSnapshot()}
	go func() {
		for {
			resp, err := watch.Recv()
			if err != nil {
				return
			}
			select {
			case s.arrivals <- arrival{time.Now(), resp.GetSnapshot()}:
			default: // nobody waits for it
			}
		}
	}()
	return s, nil
}
