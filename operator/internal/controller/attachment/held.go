package attachment

import (
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/lead"
)

// heldUp knows for how long hosted clusters have held up deletions, as this process
// has seen it: one that was not asked has held up nothing. An operator that starts
// begins to count anew.
type heldUp struct {
	mu    sync.Mutex
	known map[types.UID]hold // guarded by mu
}

type hold struct {
	spent time.Duration
	last  time.Time
	away  time.Duration
}

// abandoned is for how long a count is kept that nobody goes on with: somebody has
// taken the finalizer off.
const abandoned = 24 * time.Hour

// try is one attempt to leave a hosted cluster, which has failed.
type try struct {
	began, ended time.Time
	// away is for how long the management cluster's API server was away until now.
	away time.Duration
	// fault is the hosted cluster's.
	fault bool
}

// add counts what lies between two tries, but for the time in which the management
// cluster was away, and gives the sum.
func (h *heldUp) add(uid types.UID, t try) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = map[types.UID]hold{}
	}
	maps.DeleteFunc(h.known, func(_ types.UID, o hold) bool { return t.ended.Sub(o.last) > abandoned })
	o, known := h.known[uid]
	if !known {
		o = hold{last: t.began, away: t.away}
	}
	if counted := t.ended.Sub(o.last) - (t.away - o.away); t.fault && counted > 0 {
		o.spent += counted
	}
	o.last, o.away = t.ended, t.away
	h.known[uid] = o
	return o.spent
}

func (h *heldUp) forget(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, uid)
}

// faultOfHosted: neither is it the management cluster that could not be read, nor
// this replica that may not write, nor the number of the others.
func faultOfHosted(err error) bool {
	return !errors.Is(err, hosted.ErrManagement) && !errors.Is(err, lead.ErrUnsure) && !errors.Is(err, hosted.ErrNotAsked)
}
