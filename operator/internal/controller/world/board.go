package world

import (
	"context"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Board holds what the attachment controller has observed and not written yet:
// the status of an attachment is written once, with the Infra's word in it,
// where that word comes soon. What is written counts before what is posted. A
// restart loses the board and nothing else: the same is observed again.
type Board struct {
	clock func() time.Time
	news  chan event.GenericEvent

	mu     sync.Mutex
	posted map[types.UID]post // guarded by mu
}

type post struct {
	generation  int64
	first, last time.Time
	status      v1alpha1.InfraClusterAttachmentStatus
}

// kept is how long a post stays whose attachment is not in a list: longer than
// any list is old that somebody still works with.
const kept = time.Minute

// newsRoom is how many posts may wait for the Infra controller.
const newsRoom = 1024

// NewBoard makes an empty board.
func NewBoard(clock func() time.Time) *Board {
	return &Board{clock: clock, news: make(chan event.GenericEvent, newsRoom), posted: map[types.UID]post{}}
}

// News tells of attachments that were posted.
func (b *Board) News() <-chan event.GenericEvent { return b.news }

// Post puts up an attachment's status, and says how long one of its generation
// has been there. The same facts again are no news.
func (b *Board) Post(ctx context.Context, a *v1alpha1.InfraClusterAttachment) time.Duration {
	age, news := b.put(a)
	if news {
		select {
		case b.news <- event.GenericEvent{Object: a}:
		case <-ctx.Done():
		}
	}
	return age
}

func (b *Board) put(a *v1alpha1.InfraClusterAttachment) (age time.Duration, news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, had := b.posted[a.UID]
	now := b.clock()
	is := post{generation: a.Generation, first: now, last: now, status: *a.Status.DeepCopy()}
	if had && was.generation == is.generation {
		is.first, news = was.first, !reflect.DeepEqual(was.status.Observed, is.status.Observed)
	} else {
		news = true
	}
	b.posted[a.UID] = is
	return now.Sub(is.first), news
}

// Over lays what is posted over attachments whose own status is older than
// their spec. The list may be the cache's own: it is not changed.
func (b *Board) Over(list []v1alpha1.InfraClusterAttachment) []v1alpha1.InfraClusterAttachment {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.posted) == 0 {
		return list
	}
	out, copied := list, false
	for i := range list {
		a := &list[i]
		p, ok := b.posted[a.UID]
		if !ok {
			continue
		}
		if a.Status.ObservedGeneration >= p.generation {
			delete(b.posted, a.UID) // it is written
			continue
		}
		if p.generation != a.Generation {
			continue
		}
		if !copied {
			out, copied = append([]v1alpha1.InfraClusterAttachment(nil), list...), true
		}
		out[i].Status = p.status
		out[i].Status.Conditions = withProgrammedOf(p.status.Conditions, a.Status.Conditions)
	}
	b.sweep()
	return out
}

// sweep forgets attachments that are gone. A list may be older than a post of an
// attachment that is not in it: those stay for a while.
func (b *Board) sweep() {
	now := b.clock()
	for uid, p := range b.posted {
		if now.Sub(p.last) > kept {
			delete(b.posted, uid)
		}
	}
}

// withProgrammedOf takes the Infra controller's condition from what is stored.
func withProgrammedOf(posted, stored []metav1.Condition) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range posted {
		if c.Type != v1alpha1.ConditionProgrammed {
			out = append(out, c)
		}
	}
	for _, c := range stored {
		if c.Type == v1alpha1.ConditionProgrammed {
			out = append(out, c)
		}
	}
	return out
}
