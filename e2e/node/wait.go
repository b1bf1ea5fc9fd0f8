package node

import (
	"context"
	"fmt"
	"time"
)

// Wait calls probe until it returns nil, and returns its last error when the
// time is over.
func Wait(ctx context.Context, limit time.Duration, what string, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting %s for %s: %w", limit, what, err)
		case <-tick.C:
		}
	}
}
