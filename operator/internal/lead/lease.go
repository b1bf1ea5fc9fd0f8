package lead

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Lease is a lock that its holder keeps while nobody can be asked. It tells the
// elector that it was renewed, since the elector's answer to anything else is to
// give up; that this is not known to be so closes the Term, and with it the gate
// for writes.
type Lease struct {
	resourcelock.Interface

	term *Term
	log  *slog.Logger

	mu     sync.Mutex
	holder string // guarded by mu; as last read or written
	lost   bool   // guarded by mu; was ours, and then somebody else's
	unsure bool   // guarded by mu
}

// errLost answers the elector until it gives up.
var errLost = errors.New("somebody else has held the leader's Lease since")

// NewLease makes the lock of a Lease. config must not lead through the Term's gate.
func NewLease(config *rest.Config, namespace, name string, term *Term, log *slog.Logger) (*Lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host name: %w", err)
	}
	identity := host + "_" + string(uuid.NewUUID())
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, name,
		resourcelock.ResourceLockConfig{Identity: identity}, config, Window)
	if err != nil {
		return nil, fmt.Errorf("making the leader's Lease: %w", err)
	}
	return &Lease{Interface: lock, term: term, log: log}, nil
}

// Get implements resourcelock.Interface.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.held(record.HolderIdentity)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.wasLost() {
		return errLost
	}
	asked := time.Now()
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.renewed(record.HolderIdentity, asked)
	}
	return err
}

// Update implements resourcelock.Interface.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ours := l.isOurs()
	if record.HolderIdentity == "" && !ours {
		return nil // what somebody else holds by now is not ours to release
	}
	if l.wasLost() {
		return errLost
	}
	asked := time.Now()
	err := l.Interface.Update(ctx, record)
	switch {
	case err == nil:
		l.renewed(record.HolderIdentity, asked)
	case ours && record.HolderIdentity != "" && l.outage(ctx, err):
		l.doubt(err)
		return nil
	}
	return err
}

// outage tells whether a leader is to wait out what its renewal has ended with. A
// Lease that we have taken without knowing it makes no leader: no term has begun
// that would hold back its writes.
func (l *Lease) outage(ctx context.Context, err error) bool {
	return l.term.hasBegun() && !answered(err) && !errors.Is(ctx.Err(), context.Canceled)
}

// answered tells whether the API server has said that the Lease is not to be
// renewed so: changed by somebody, gone, or forbidden.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}

func (l *Lease) isOurs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder == l.Identity()
}

func (l *Lease) wasLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// held notes whose the Lease is. Once it has been ours, it ends our term that it is
// not any more; and even if it were free again, we could not go on from what we
// know: the elector is to give up.
func (l *Lease) held(holder string) {
	lost := holder != l.Identity() && l.term.hasBegun()
	l.mu.Lock()
	l.holder = holder
	l.lost = l.lost || lost
	l.mu.Unlock()
	if lost {
		l.term.End()
	}
}

func (l *Lease) renewed(holder string, asked time.Time) {
	l.mu.Lock()
	l.holder = holder
	was := l.unsure
	l.unsure = false
	l.mu.Unlock()
	if holder != l.Identity() {
		l.term.End()
		return
	}
	l.term.Renewed(asked)
	if was {
		l.log.Info("the leader's Lease is renewed again")
	}
}

func (l *Lease) doubt(err error) {
	l.mu.Lock()
	was := l.unsure
	l.unsure = true
	l.mu.Unlock()
	if !was {
		l.log.Warn("the leader's Lease cannot be renewed; writes wait until it is", "err", err)
	}
}
