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
	generation int64
	first      time.Time
	status     v1alpha1.InfraClusterAttachmentStatus
}

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
	is := post{generation: a.Generation, first: b.clock(), status: *a.Status.DeepCopy()}
	if had && was.generation == is.generation {
		is.first, news = was.first, !reflect.DeepEqual(was.status.Observed, is.status.Observed)
	} else {
		news = true
	}
	b.posted[a.UID] = is
	return b.clock().Sub(is.first), news
}

// Over lays what is posted over attachments whose own status is older than
// their spec. The list may be the cache's own: it is not changed. All of them
// being in the list, the board forgets what it needs no longer.
func (b *Board) Over(list []v1alpha1.InfraClusterAttachment, all bool) []v1alpha1.InfraClusterAttachment {
	b.mu.Lock()
	defer b.mu.Unlock()
	needed := map[types.UID]post{}
	out := list
	for i := range list {
		a := &list[i]
		p, ok := b.posted[a.UID]
		if !ok || p.generation != a.Generation || a.Status.ObservedGeneration == a.Generation {
			continue
		}
		if len(needed) == 0 {
			out = append([]v1alpha1.InfraClusterAttachment(nil), list...)
		}
		needed[a.UID] = p
		out[i].Status = p.status
		out[i].Status.Conditions = withProgrammedOf(p.status.Conditions, a.Status.Conditions)
	}
	if all {
		b.posted = needed
	}
	return out
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
