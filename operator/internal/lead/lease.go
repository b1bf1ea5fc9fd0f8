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
	unsure bool   // guarded by mu
}

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
	asked := time.Now()
	err := l.Interface.Update(ctx, record)
	switch {
	case err == nil:
		l.renewed(record.HolderIdentity, asked)
	case ours && record.HolderIdentity != "" && !answered(err) && !errors.Is(ctx.Err(), context.Canceled):
		l.doubt(err)
		return nil
	}
	return err
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

func (l *Lease) held(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = holder
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
