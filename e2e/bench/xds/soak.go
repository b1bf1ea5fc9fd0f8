package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/densityops/oooi/e2e/proxy"
)

// changeEvery is how often the world changes while connections stand idle.
const changeEvery = 30 * time.Second

// soak holds idle connections of the steady attachments for a long time, beyond
// Envoy's default idle timeout of an hour and several times its drain time of 600
// seconds, while other attachments and their workers come and go (case C37).
func soak(ctx context.Context, long time.Duration) (row, error) {
	lost := row{ID: fmt.Sprintf("xds.idle_connections_lost_in_%s", long)}
	w := world{attachments: churnAttachments}
	r, err := begin(ctx, w, (*rig).startOurs)
	if r != nil {
		defer r.close()
	}
	if err != nil {
		return lost, err
	}
	b, err := proxy.NewBackend(r.host, "konnectivity", netip.MustParseAddrPort(backendIP+":8091"))
	if err != nil {
		return lost, err
	}
	defer b.Close()
	open, err := openSteady(ctx, r)
	if err != nil {
		return lost, err
	}
	tick := time.NewTicker(changeEvery)
	defer tick.Stop()
	end := time.NewTimer(long)
	defer end.Stop()
	for i := 1; ; i++ {
		select {
		case <-tick.C:
			if _, err := r.publish(w.without(i), fmt.Sprintf("v%d", i), time.Minute); err != nil {
				return lost, err
			}
			fmt.Fprintf(os.Stderr, "change %d; the backend holds %d of %d connections\n", i, b.Open(), held)
		case <-end.C:
			n := held - echoing(open)
			lost.Ours, lost.OK = float64(n), n == 0
			return lost, nil
		}
	}
}
