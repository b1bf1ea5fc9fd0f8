package holder

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Duration is how long a Lease counts that is not renewed.
	Duration = 15 * time.Second
	// Every is how often it is renewed.
	Every = 5 * time.Second
)

// Client reads and writes Leases of one namespace.
type Client interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// Lease is one pod's view of the Lease.
type Lease struct {
	Client   Client
	Name     string
	Identity string

	holds bool
	// What was last seen of another holder, and when by our own clock: the
	// clocks of two nodes may differ.
	seen   string
	seenAt time.Time
}

// Holds says whether this pod is the holder.
func (l *Lease) Holds() bool { return l.holds }

// Assume says that an earlier life of this pod was the holder.
func (l *Lease) Assume() { l.holds = true }

// Try renews the Lease, or takes it if nobody has it. An error leaves
// everything as it was.
func (l *Lease) Try(ctx context.Context, now time.Time) error {
	o, err := l.Client.Get(ctx, l.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading Lease %s: %w", l.Name, err)
	}
	if other := holderOf(o); other != "" && other != l.Identity {
		l.holds = false
		if !l.lapsed(o, now) {
			return nil
		}
	}
	o = o.DeepCopy()
	seconds := int32(Duration / time.Second)
	stamp := metav1.NewMicroTime(now)
	if holderOf(o) != l.Identity {
		transitions := int32(1)
		if o.Spec.LeaseTransitions != nil {
			transitions = *o.Spec.LeaseTransitions + 1
		}
		o.Spec.LeaseTransitions, o.Spec.AcquireTime = &transitions, &stamp
	}
	o.Spec.HolderIdentity, o.Spec.LeaseDurationSeconds, o.Spec.RenewTime = &l.Identity, &seconds, &stamp
	if _, err := l.Client.Update(ctx, o, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("taking Lease %s: %w", l.Name, err)
	}
	l.holds = true
	return nil
}

// lapsed says whether the other holder has not renewed for the Lease's time,
// measured by our clock from when we first saw its last renewal.
func (l *Lease) lapsed(o *coordinationv1.Lease, now time.Time) bool {
	mark := holderOf(o) + " " + o.ResourceVersion
	if mark != l.seen {
		l.seen, l.seenAt = mark, now
	}
	d := Duration
	if s := o.Spec.LeaseDurationSeconds; s != nil {
		d = time.Duration(*s) * time.Second
	}
	return now.Sub(l.seenAt) > d
}

// Release gives the Lease up.
func (l *Lease) Release(ctx context.Context) error {
	if !l.holds {
		return nil
	}
	l.holds = false
	o, err := l.Client.Get(ctx, l.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading Lease %s: %w", l.Name, err)
	}
	if holderOf(o) != l.Identity {
		return nil
	}
	o = o.DeepCopy()
	nobody := ""
	o.Spec.HolderIdentity = &nobody
	if _, err := l.Client.Update(ctx, o, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("releasing Lease %s: %w", l.Name, err)
	}
	return nil
}

func holderOf(o *coordinationv1.Lease) string {
	if o.Spec.HolderIdentity == nil {
		return ""
	}
	return *o.Spec.HolderIdentity
}
