package workload

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/densityops/oooi/operator/internal/agent"
)

// files remember the snapshots of the children as their ConfigMaps hold them. To make
// one takes longer than all the rest of a pass, and most passes are of a pod or of a
// status.
type files struct {
	mu    sync.Mutex
	known map[types.UID]file // guarded by mu
}

// file is the snapshot of one generation.
type file struct {
	generation int64
	version    string
	content    []byte
}

// get gives the file of a child's generation; ok is false where it is not known.
func (f *files) get(uid types.UID, generation int64) (file, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.known[uid]
	return known, ok && known.generation == generation
}

// put remembers a file. With the first one of a child those are forgotten whose child
// does not live any more.
func (f *files) put(uid types.UID, is file, living func() map[types.UID]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, had := f.known[uid]; !had {
		all := living()
		for other := range f.known {
			if !all[other] {
				delete(f.known, other)
			}
		}
	}
	if f.known == nil {
		f.known = map[types.UID]file{}
	}
	f.known[uid] = is
}

// file encodes the child's snapshot, once for each generation: nothing but the spec is
// in it. refused is a fault of the spec.
func (c *Controller[T]) file(ctx context.Context, child T) (is file, refused, err error) {
	if known, ok := c.files.get(child.GetUID(), child.GetGeneration()); ok {
		return known, nil, nil
	}
	snapshot, refused := c.Kind.Encode(child)
	if refused != nil {
		return file{}, refused, nil
	}
	is = file{generation: child.GetGeneration(), version: snapshot.GetVersion()}
	if is.content, err = agent.File(snapshot); err != nil {
		return file{}, nil, fmt.Errorf("encoding the snapshot: %w", err)
	}
	c.files.put(child.GetUID(), is, func() map[types.UID]bool {
		out := map[types.UID]bool{}
		for _, other := range c.list(ctx, "") {
			out[other.GetUID()] = true
		}
		return out
	})
	return is, nil, nil
}
