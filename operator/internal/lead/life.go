package lead

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/operator-framework/operator-lib/leader"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lifeRetry is how soon to ask again where the API server could not be asked.
const lifeRetry = 5 * time.Second

// Life leads once operator-lib's leader for life says so, and until the process
// ends. To the manager it is a lock that somebody else holds before that: so a
// replica that waits answers its probes and serves agents, as one does that waits
// for a Lease.
//
// While it leads it looks after the lock: an outage of the API server ends nothing,
// but a lock that is gone or another pod's does. A pod is deleted under a leader
// that cannot be reached: its writes have to wait until it knows.
type Life struct {
	config    *rest.Config
	namespace string
	name      string
	term      *Term
	log       *slog.Logger

	mu     sync.Mutex
	led    bool                               // guarded by mu
	record *resourcelock.LeaderElectionRecord // guarded by mu
}

var (
	errNotLeading = errors.New("another pod leads for its life")
	// ErrLockLost ends the process.
	ErrLockLost = errors.New("the lock of the leader for life is gone or another pod's")
)

// NewLife makes the lock. config must not lead through the Term's gate.
func NewLife(config *rest.Config, namespace, name string, term *Term, log *slog.Logger) *Life {
	return &Life{config: config, namespace: namespace, name: name, term: term, log: log}
}

// NeedLeaderElection says that every replica stands for leader.
func (l *Life) NeedLeaderElection() bool { return false }

// Start stands for leader until it leads, and then looks after the lock.
func (l *Life) Start(ctx context.Context) error {
	// Not the manager's: its cache knows none of these objects.
	direct, err := client.New(l.config, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client for the leader's lock: %w", err)
	}
	for {
		err := leader.Become(ctx, l.name, leader.WithClient(direct))
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		l.log.Error("becoming the leader", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lifeRetry):
		}
	}
	l.term.Renewed(time.Now())
	l.mu.Lock()
	l.led = true
	l.mu.Unlock()
	return l.keep(ctx, direct)
}

// keep looks at the lock until the context ends or the lock is lost.
func (l *Life) keep(ctx context.Context, direct client.Reader) error {
	ticker := time.NewTicker(Retry)
	defer ticker.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		asked := time.Now()
		err := l.look(ctx, direct)
		switch {
		case errors.Is(err, ErrLockLost):
			l.term.End()
			return err
		case err == nil:
			l.term.Renewed(asked)
			said = false
		case !said && ctx.Err() == nil:
			said = true
			l.log.Warn("the leader's lock cannot be read; writes wait until it is", "err", err)
		}
	}
}

// look says whether the lock is still this pod's.
func (l *Life) look(ctx context.Context, direct client.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, Window/2)
	defer cancel()
	lock := &corev1.ConfigMap{}
	err := direct.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: l.name}, lock)
	if apierrors.IsNotFound(err) {
		return ErrLockLost
	}
	if err != nil {
		return fmt.Errorf("reading the leader's lock: %w", err)
	}
	ours := func(r metav1.OwnerReference) bool { return r.Kind == "Pod" && r.Name == l.Identity() }
	if !slices.ContainsFunc(lock.OwnerReferences, ours) {
		return ErrLockLost
	}
	return nil
}

// Get implements resourcelock.Interface. What it gives while another pod leads is
// another text each time: a record that never changes counts as one that expires.
func (l *Life) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record := l.record
	switch {
	case !l.led:
		record = &resourcelock.LeaderElectionRecord{HolderIdentity: errNotLeading.Error(), RenewTime: metav1.Now()}
	case record == nil:
		return nil, nil, apierrors.NewNotFound(corev1.Resource("configmaps"), l.name)
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the leader's record: %w", err)
	}
	if !l.led {
		raw = time.Now().AppendFormat(raw, time.RFC3339Nano)
	}
	return record, raw, nil
}

// Create implements resourcelock.Interface.
func (l *Life) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

// Update implements resourcelock.Interface.
func (l *Life) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.led {
		return errNotLeading
	}
	l.record = &r
	return nil
}

// RecordEvent implements resourcelock.Interface.
func (l *Life) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *Life) Identity() string { return os.Getenv("POD_NAME") }

// Describe implements resourcelock.Interface.
func (l *Life) Describe() string {
	return "leader for life " + l.namespace + "/" + l.name
}
