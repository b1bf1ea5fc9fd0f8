package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// memoryLimit is soft, and below what the manifests give the pod (512 MiB): the
// collector works harder before the kernel kills. GOMEMLIMIT wins.
const memoryLimit = 448 << 20

// The operator rests most of the time. What a burst of a thousand attachments
// needed on top of the 50 MB that live, Go would keep for minutes, up to twice as
// much. So it is given back at rest: when little was allocated between two looks, and
// enough before to be worth a collection. A hundred children whose pods do not run are
// looked at again and again; a change of a single attachment takes more than both.
const (
	look  = 5 * time.Second
	rests = 12 << 20
	worth = 32 << 20
)

// boundMemory sets the limit, and gives memory back until the context ends.
func boundMemory(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	go func() {
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		var r release
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if r.due(allocated()) {
					debug.FreeOSMemory()
				}
			}
		}
	}()
}

// release decides when memory is given back.
type release struct {
	// last is what had been allocated at the last look, done at the last release.
	last, done uint64
}

// due is asked at each look with all that was allocated so far.
func (r *release) due(allocated uint64) bool {
	since := allocated - r.last
	r.last = allocated
	if since > rests || allocated-r.done < worth {
		return false
	}
	r.done = allocated
	return true
}

// allocated counts the bytes that were ever allocated on the heap.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
