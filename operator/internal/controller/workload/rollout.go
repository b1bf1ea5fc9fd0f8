package workload

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/render"
)

// TemplateAnnotation on a Deployment is the digest of the pod template that was
// rendered, so that a template that changes is known before it is applied.
const TemplateAnnotation = "hostedcluster.densityops.com/template"

const (
	// rolloutTimeout is when a component that is not Ready no longer blocks others.
	rolloutTimeout = 10 * time.Minute
	// askAgain is how often a component that waits asks again.
	askAgain = 3 * time.Second
	// askedWithin is how long one that has asked counts as waiting.
	askedWithin = 5 * askAgain
	// queueFor is how long one waits at least, so that those before it can ask.
	queueFor = 2 * time.Second
)

// ask is when a component first and last asked.
type ask struct{ first, last time.Time }

// RolloutKey orders components: by Infra, then by rank.
type RolloutKey struct {
	Namespace, Instance string
	Rank                int
}

func (k RolloutKey) compare(o RolloutKey) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Instance, o.Instance), cmp.Compare(k.Rank, o.Rank))
}

// Rollouts lets one component at a time change its pods (behaviour B13). Who
// rolls out is derived from the Deployments, so a restart forgets nothing that
// counts.
type Rollouts struct {
	clock func() time.Time

	mu     sync.Mutex
	active map[RolloutKey]time.Time // guarded by mu; since when
	asked  map[RolloutKey]ask       // guarded by mu
}

// NewRollouts makes an empty book.
func NewRollouts(clock func() time.Time) *Rollouts {
	return &Rollouts{clock: clock, active: map[RolloutKey]time.Time{}, asked: map[RolloutKey]ask{}}
}

// Seen records whether a component's Deployment rolls out, and since when.
func (r *Rollouts) Seen(k RolloutKey, rolling bool, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !rolling {
		delete(r.active, k)
		return
	}
	if started, ok := r.active[k]; !ok || since.After(started) {
		r.active[k] = since
	}
}

// Done forgets a component.
func (r *Rollouts) Done(k RolloutKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.active, k)
	delete(r.asked, k)
}

// Active tells whether a component rolls out.
func (r *Rollouts) Active() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock()
	for _, since := range r.active {
		if now.Sub(since) < rolloutTimeout {
			return true
		}
	}
	return false
}

// Start asks to change the pods of a component; false: not now.
func (r *Rollouts) Start(k RolloutKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock()
	if _, begun := r.active[k]; begun {
		r.active[k] = now
		return true
	}
	own := r.asked[k]
	if own.first.IsZero() || now.Sub(own.last) > askedWithin {
		own.first = now
	}
	own.last = now
	r.asked[k] = own
	for other, since := range r.active {
		if other != k && now.Sub(since) < rolloutTimeout {
			return false
		}
	}
	if now.Sub(own.first) < queueFor {
		return false
	}
	for other, theirs := range r.asked {
		if now.Sub(theirs.last) > askedWithin {
			delete(r.asked, other)
			continue
		}
		if other.compare(k) < 0 {
			return false
		}
	}
	delete(r.asked, k)
	r.active[k] = now
	return true
}

func (c *Controller[T]) rolloutKey(child T) RolloutKey {
	instance := child.GetName()
	if infra := child.GetLabels()[render.LabelInfra]; infra != "" {
		instance = infra
	}
	return RolloutKey{Namespace: child.GetNamespace(), Instance: instance, Rank: c.Kind.Rank}
}

// gate marks the Deployment with the digest of its template, and holds it back
// while another component rolls out. A Deployment that does not exist yet harms
// nobody.
func (c *Controller[T]) gate(child T, objects []render.Object, live *appsv1.Deployment) (out, keep []client.Object) {
	k := c.rolloutKey(child)
	for _, o := range objects {
		d, ok := o.(*appsv1.Deployment)
		if !ok {
			out = append(out, o)
			continue
		}
		d = d.DeepCopy()
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[TemplateAnnotation] = templateDigest(&d.Spec.Template)
		if live == nil {
			out = append(out, d)
			continue
		}
		changes := live.Annotations[TemplateAnnotation] != d.Annotations[TemplateAnnotation]
		if rolling(live) || !changes {
			// A cache that has not seen our own write yet proves nothing.
			c.Rollouts.Seen(k, rolling(live), since(live))
		}
		if changes && !c.Rollouts.Start(k) {
			keep = append(keep, d)
			continue
		}
		out = append(out, d)
	}
	return out, keep
}

func templateDigest(t *corev1.PodTemplateSpec) string {
	b, err := json.Marshal(t)
	if err != nil {
		panic("a pod template cannot be encoded: " + err.Error()) // plain data always can
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// rolling tells that not every pod is of the newest template and up.
func rolling(d *appsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	return d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < want || d.Status.AvailableReplicas < want
}

// since is when the roll-out of a Deployment began.
func since(d *appsv1.Deployment) time.Time {
	times := []time.Time{d.CreationTimestamp.Time}
	for _, cond := range d.Status.Conditions {
		if cond.Type == appsv1.DeploymentProgressing {
			times = append(times, cond.LastUpdateTime.Time)
		}
	}
	return slices.MaxFunc(times, time.Time.Compare)
}
