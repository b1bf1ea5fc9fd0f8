package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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

// forLife leads once operator-lib's leader for life says so, and until the process
// ends. To the manager it is a lock that somebody else holds before that: so a
// replica that waits answers its probes and serves agents, as one does that waits
// for a Lease.
type forLife struct {
	options Options
	config  *rest.Config

	mu     sync.Mutex
	led    bool                               // guarded by mu
	record *resourcelock.LeaderElectionRecord // guarded by mu
}

var errNotLeading = errors.New("another pod leads for its life")

// NeedLeaderElection says that every replica stands for leader.
func (l *forLife) NeedLeaderElection() bool { return false }

// Start stands for leader until it leads.
func (l *forLife) Start(ctx context.Context) error {
	// Not the manager's: its cache knows none of these objects.
	direct, err := client.New(l.config, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client for the leader's lock: %w", err)
	}
	for {
		err := leader.Become(ctx, leaderLock, leader.WithClient(direct))
		if err == nil {
			l.mu.Lock()
			l.led = true
			l.mu.Unlock()
			<-ctx.Done()
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		l.options.Logger.Error("becoming the leader", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lifeRetry):
		}
	}
}

// Get implements resourcelock.Interface. What it gives while another pod leads is
// another text each time: a record that never changes counts as one that expires.
func (l *forLife) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record := l.record
	switch {
	case !l.led:
		record = &resourcelock.LeaderElectionRecord{HolderIdentity: errNotLeading.Error(), RenewTime: metav1.Now()}
	case record == nil:
		return nil, nil, apierrors.NewNotFound(corev1.Resource("configmaps"), leaderLock)
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
func (l *forLife) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

// Update implements resourcelock.Interface.
func (l *forLife) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.led {
		return errNotLeading
	}
	l.record = &r
	return nil
}

// RecordEvent implements resourcelock.Interface.
func (l *forLife) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *forLife) Identity() string { return os.Getenv("POD_NAME") }

// Describe implements resourcelock.Interface.
func (l *forLife) Describe() string {
	return "leader for life " + l.options.Namespace + "/" + leaderLock
}
