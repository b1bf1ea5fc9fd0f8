package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/densityops/oooi/e2e/lab"
	"github.com/densityops/oooi/e2e/proxy"
)

const (
	resourceAttachments = 100
	// rejections are slow: each one is undone and waited for.
	rejections = 10
	settleTime = time.Minute
)

// resource measures the whole way, with a real API server and the operator: from
// the moment a change of a ProxyServer with 400 routes is stored (what storing it
// takes stands beside it) until Envoy has acknowledged it, and from Envoy's
// rejection until it is in the status.
func resource(ctx context.Context, changes int) ([]row, error) {
	r, err := newRig(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	w := world{attachments: resourceAttachments}
	c, err := proxy.NewCluster(ctx, r.host, netip.MustParseAddr(backendIP), r.dir, w.spec())
	if err != nil {
		return nil, err
	}
	args, err := c.Join(ctx, r.host)
	if err != nil {
		return nil, err
	}
	if err := r.startWith(ctx, args...); err != nil {
		return nil, err
	}
	if err := settled(ctx, c); err != nil {
		return nil, errors.Join(err, r.manager.Running())
	}
	written, taken, err := changed(ctx, r, c, changes)
	if err != nil {
		return nil, err
	}
	refused, err := rejected(ctx, r, c)
	if err != nil {
		return nil, err
	}
	one := func(id string, s sample, q, bar float64) row {
		v := s.at(q)
		return row{ID: "xds." + id, Ours: v, Bar: bar, OK: bar == 0 || v < bar}
	}
	return []row{
		one("resource_write_p50_ms.400", written, 0.5, 0),
		one("resource_to_ack_p50_ms.400", taken, 0.5, 0), one("resource_to_ack_p99_ms.400", taken, 0.99, 100),
		one("rejection_to_status_p50_ms", refused, 0.5, 0), one("rejection_to_status_p99_ms", refused, 0.99, 1000),
	}, nil
}

func settled(ctx context.Context, c *proxy.Cluster) error {
	return lab.Until(ctx, settleTime, "the status says that all is accepted", func(ctx context.Context) error {
		got, err := c.Resource(ctx)
		if err == nil && !got.Settled() {
			err = fmt.Errorf("it says %+v", got.Status.Agent)
		}
		return err
	})
}

// changed gives one attachment after the other another worker.
func changed(ctx context.Context, r *rig, c *proxy.Cluster, changes int) (write, s sample, err error) {
	for i := 1; i <= changes; i++ {
		for len(r.accepted) > 0 {
			<-r.accepted
		}
		var ops []proxy.Operation
		target := 7 * i % resourceAttachments
		for scoped := backendsOfEach - 3; scoped < backendsOfEach; scoped++ {
			path := fmt.Sprintf("/spec/backends/%d/sourcePrefixRanges/-", backendsOfEach*target+scoped)
			ops = append(ops, proxy.Operation{Op: "add", Path: path, Value: fmt.Sprintf("198.18.%d.%d/32", 100+i/250, 1+i%250)})
		}
		sent := time.Now()
		if err := c.Patch(ctx, ops...); err != nil {
			return write, s, err
		}
		began := time.Now()
		write.latencies = append(write.latencies, float64(began.Sub(sent).Microseconds())/1000)
		select {
		case a := <-r.accepted:
			s.latencies = append(s.latencies, float64(a.at.Sub(began).Microseconds())/1000)
		case <-time.After(settleTime):
			return write, s, fmt.Errorf("change %d was not acknowledged; the manager said %s", i, tail(r.manager.Output()))
		}
	}
	slices.Sort(s.latencies)
	slices.Sort(write.latencies)
	return write, s, settled(ctx, c)
}

// rejected makes Envoy refuse a listener: its port is taken.
func rejected(ctx context.Context, r *rig, c *proxy.Cluster) (sample, error) {
	var s sample
	squatter, err := proxy.Listen(r.host, netip.MustParseAddrPort(serverIP+":8443"))
	if err != nil {
		return s, err
	}
	defer func() { _ = squatter.Close() }()
	extra := object{
		"name": "extra", "hostnames": []any{"extra.example.com"}, "port": 8443, "protocol": "TLS",
		"endpoints": []any{object{"ip": backendIP, "port": 443}},
	}
	for range rejections {
		for len(r.rejected) > 0 {
			<-r.rejected
		}
		if err := c.Patch(ctx, proxy.Operation{Op: "add", Path: "/spec/backends/-", Value: extra}); err != nil {
			return s, err
		}
		var began time.Time
		select {
		case began = <-r.rejected:
		case <-time.After(settleTime):
			return s, errors.New("envoy rejected nothing")
		}
		if err := said(ctx, c, "ConfigRejected"); err != nil {
			return s, err
		}
		s.latencies = append(s.latencies, float64(time.Since(began).Microseconds())/1000)
		path := fmt.Sprintf("/spec/backends/%d", backendsOfEach*resourceAttachments)
		if err := errors.Join(c.Patch(ctx, proxy.Operation{Op: "remove", Path: path}), settled(ctx, c)); err != nil {
			return s, err
		}
	}
	slices.Sort(s.latencies)
	return s, nil
}

// said waits for a problem of that reason in the status.
func said(ctx context.Context, c *proxy.Cluster, reason string) error {
	return lab.Until(ctx, settleTime, reason+" is in the status", func(ctx context.Context) error {
		got, err := c.Resource(ctx)
		for _, p := range got.Status.Agent.Problems {
			if p.Reason == reason {
				return nil
			}
		}
		return errors.Join(err, errors.New("it is not"))
	})
}
