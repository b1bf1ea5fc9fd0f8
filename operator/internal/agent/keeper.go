package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretName of the hub's authority, in the operator's namespace.
const SecretName = "oooi-hub-tls"

// lookAgain is how often the Secret is read: well within the time that a new CA
// is published before it signs.
const lookAgain = 30 * time.Second

// +kubebuilder:rbac:groups="",namespace=oooi-system,resources=secrets,resourceNames=oooi-hub-tls,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=oooi-system,resources=secrets,verbs=create

// Keeper keeps the hub's authority: every replica reads it, the leader rotates it.
type Keeper struct {
	live      client.Reader
	writer    client.Client
	namespace string
	names     []string
	leader    <-chan struct{}
	clock     func() time.Time
	log       *slog.Logger
	changed   func()

	mu        sync.Mutex
	authority *Authority // guarded by mu; nil until the Secret is there
}

// NewKeeper makes a Keeper of a Secret in the namespace. leader is closed once
// this replica may write; changed is called when agents have to trust another
// set of CAs.
func NewKeeper(live client.Reader, writer client.Client, namespace string, names []string, leader <-chan struct{},
	clock func() time.Time, log *slog.Logger, changed func(),
) *Keeper {
	return &Keeper{
		live: live, writer: writer, namespace: namespace, names: names, leader: leader, clock: clock, log: log, changed: changed,
	}
}

// NeedLeaderElection says that every replica keeps one.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start keeps the authority until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	leader := k.leader
	for {
		wait := lookAgain
		if err := k.Look(ctx); err != nil {
			k.log.Warn("keeping the hub's authority", "err", err)
			wait = 2 * time.Second
		} else if !k.Ready() {
			wait = time.Second
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-leader:
			leader = nil // closed once; look again as the leader
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Ready tells whether there is a certificate to serve with.
func (k *Keeper) Ready() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.authority != nil
}

// Bundle is what agents have to trust; nil until there is an authority.
func (k *Keeper) Bundle() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.authority == nil {
		return nil
	}
	return k.authority.Bundle()
}

// Certificate is what the hub serves with.
func (k *Keeper) Certificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.authority == nil {
		return nil, errors.New("the hub has no certificate yet")
	}
	return k.authority.Certificate()
}

// Ends is when the serving certificate ends; zero until there is one.
func (k *Keeper) Ends() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.authority == nil {
		return time.Time{}
	}
	cert, err := k.authority.cert(secretServingCert)
	if err != nil {
		return time.Time{}
	}
	return cert.NotAfter
}

// Look reads the Secret once, and as the leader brings it up to date.
func (k *Keeper) Look(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := k.live.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: SecretName}, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("reading Secret %s: %w", SecretName, err)
	}
	authority := LoadAuthority(secret.Data)
	if k.leads() {
		changed, err := authority.Rotate(k.clock(), k.names)
		if err != nil {
			return err
		}
		if changed {
			if err := k.write(ctx, secret, authority, missing); err != nil {
				return err
			}
		}
	} else if missing {
		return nil
	}
	k.take(authority)
	return nil
}

func (k *Keeper) leads() bool {
	select {
	case <-k.leader:
		return true
	default:
		return false
	}
}

func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, authority Authority, missing bool) error {
	secret.Data = authority.Data()
	var err error
	if missing {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: k.namespace, Name: SecretName}
		secret.Type = corev1.SecretTypeTLS
		err = k.writer.Create(ctx, secret)
	} else {
		err = k.writer.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", SecretName, err)
	}
	return nil
}

func (k *Keeper) take(authority Authority) {
	if _, err := authority.Certificate(); err != nil {
		k.log.Warn("reading the hub's authority", "err", err)
		return
	}
	k.mu.Lock()
	other := k.authority == nil || !bytes.Equal(k.authority.Bundle(), authority.Bundle())
	k.authority = &authority
	k.mu.Unlock()
	if other && k.changed != nil {
		k.changed()
	}
}
