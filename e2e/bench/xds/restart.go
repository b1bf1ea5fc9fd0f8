package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/densityops/oooi/e2e/lab"
	"github.com/densityops/oooi/e2e/proxy"
)

const restarts = 5

// restart kills manager and Envoy and measures until a client is answered again:
// they start from what lies on disk, as without operator and API server.
func restart(ctx context.Context) (row, error) {
	out := row{ID: "xds.restart_of_both_to_first_answer_ms.400", Bar: 2000}
	r, err := begin(ctx, world{attachments: 100}, (*rig).startOurs)
	if r != nil {
		defer r.close()
	}
	if err != nil {
		return out, err
	}
	b, err := proxy.NewBackend(r.host, "konnectivity", netip.MustParseAddrPort(backendIP+":8091"))
	if err != nil {
		return out, err
	}
	defer b.Close()
	var s sample
	for range restarts {
		if err := r.manager.Kill(); err != nil {
			return out, err
		}
		if err := r.envoy.Kill(); err != nil {
			return out, err
		}
		began := time.Now()
		if err := r.startOurs(ctx); err != nil {
			return out, err
		}
		err := lab.Until(ctx, time.Minute, "the first answer", func(ctx context.Context) error {
			c, name := proxy.Open(ctx, r.host, netip.Addr{}, netip.MustParseAddrPort(serverIP+":443"), proxy.Named(fmt.Sprintf(konnectivityOf, 0)), 0)
			if c == nil {
				return fmt.Errorf("%s", name)
			}
			return c.Close()
		})
		if err != nil {
			return out, err
		}
		s.latencies = append(s.latencies, float64(time.Since(began).Microseconds())/1000)
	}
	slices.Sort(s.latencies)
	out.Ours = s.at(1)
	out.OK = out.Ours < out.Bar
	return out, nil
}
