package attachment

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// How often the words of a hosted cluster are told again that say the same as before
// in another way: some at once, since what a user does may change them, and then one
// each rewriteEvery.
const (
	rewriteEvery  = 5 * time.Minute
	rewriteAtOnce = 4
)

// wording bounds the writes that a hosted cluster brings about by its words alone:
// they are its tenant's, who may word each refusal differently.
type wording struct {
	mu sync.Mutex
	// limiters are of attachments that have not all their rewrites.
	limiters map[types.UID]*rate.Limiter // guarded by mu
}

// write writes the status: nothing but words of the hosted cluster is not worth a
// write each time.
func (c *Controller) write(ctx context.Context, before, a *v1alpha1.InfraClusterAttachment) error {
	if reworded(before, a) > 0 && !c.wording.allow(a.UID, c.Clock()) {
		keepWords(before, a)
	}
	return c.statusWriter().Patch(ctx, before, a)
}

// allow takes one of an attachment's rewrites.
func (w *wording) allow(uid types.UID, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.limiters, func(_ types.UID, l *rate.Limiter) bool { return l.TokensAt(now) >= rewriteAtOnce })
	l := w.limiters[uid]
	if l == nil {
		l = rate.NewLimiter(rate.Every(rewriteEvery), rewriteAtOnce)
		if w.limiters == nil {
			w.limiters = map[types.UID]*rate.Limiter{}
		}
		w.limiters[uid] = l
	}
	return l.AllowN(now, 1)
}

// text is a message with what it belongs to.
type text struct {
	about   string
	message *string
}

// words are the messages that may hold words of the hosted cluster, by all that
// makes a message say something else.
func words(a *v1alpha1.InfraClusterAttachment) map[string]text {
	out := map[string]text{}
	st := a.Status.AppsIngressStatus
	ours := func(reason string) bool {
		return reason == v1alpha1.ReasonWaitingForInfra || reason == v1alpha1.ReasonOverlappingRange
	}
	if st != nil && !ours(st.Reason) && a.Status.ObservedGeneration == a.Generation {
		out["appsIngressStatus"] = text{string(st.Phase) + st.Reason, &st.Message}
	}
	for _, t := range []string{v1alpha1.ConditionAppsIngressReady, v1alpha1.ConditionReady, v1alpha1.ConditionDegraded} {
		c := meta.FindStatusCondition(a.Status.Conditions, t)
		if c == nil || c.ObservedGeneration != a.Generation || ours(c.Reason) {
			continue
		}
		if c.Reason == v1alpha1.ReasonHostedClusterAccessFailed || st != nil && c.Reason == st.Reason {
			out[t] = text{string(c.Status) + c.Reason, &c.Message}
		}
	}
	return out
}

// reworded counts what says the same as before in other words.
func reworded(before, after *v1alpha1.InfraClusterAttachment) (n int) {
	was := words(before)
	for key, is := range words(after) {
		if old, found := was[key]; found && old.about == is.about && *old.message != *is.message {
			n++
		}
	}
	return n
}

// keepWords says it in the words from before.
func keepWords(before, after *v1alpha1.InfraClusterAttachment) {
	was := words(before)
	for key, is := range words(after) {
		if old, found := was[key]; found && old.about == is.about {
			*is.message = *old.message
		}
	}
}
