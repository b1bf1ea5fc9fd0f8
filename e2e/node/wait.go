package node

import (
	"context"
	"fmt"
	"time"
)

// patience is how long a busy machine may take for what an idle one does at once.
const patience = 3 * time.Minute

// Wait calls probe until it returns nil, and returns its last error when the
// time is over.
func Wait(ctx context.Context, limit time.Duration, what string, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // not the one that the deadline itself made
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting %s for %s: %w", limit, what, last)
		case <-tick.C:
		}
	}
}
