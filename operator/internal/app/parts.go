package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	configv1 "github.com/openshift/api/config/v1"
	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lib/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/lead"
)

// Scheme knows every type that the operator reads or writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, hyperv1.AddToScheme, nadv1.AddToScheme, configv1.Install, operatorsv1alpha1.AddToScheme,
		operatorsv2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// leaderLock is the name of the Lease, or of the ConfigMap of a leader for life.
const leaderLock = "oooi-operator"

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=oooi-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=oooi-system,resources=configmaps,verbs=get;create;delete
// +kubebuilder:rbac:groups="",namespace=oooi-system,resources=pods,verbs=get
// +kubebuilder:rbac:groups="",namespace=oooi-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// managerOptions: caches, metrics, probes and leader.
func (a *App) managerOptions(scheme *runtime.Scheme, log logr.Logger) ctrl.Options {
	o := a.options
	m := server.Options{BindAddress: o.MetricsBindAddress}
	if o.MetricsSecure {
		m.SecureServing = true
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
		m.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS12
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.keeper.Certificate() }
		}}
	}
	// One process may hold several operators: the tests do.
	repeatable := true
	out := ctrl.Options{
		Controller: ctrlconfig.Controller{SkipNameValidation: &repeatable},
		Scheme:     scheme, Logger: log, Metrics: m, Cache: cacheOptions(),
		Client:                 client.Options{Cache: &client.CacheOptions{Unstructured: true, DisableFor: []client.Object{&corev1.Secret{}}}},
		HealthProbeBindAddress: "0", // the probes are answered before there is a manager
	}
	if a.lock != nil {
		out.LeaderElection, out.LeaderElectionReleaseOnCancel, out.LeaderElectionResourceLockInterface = true, true, a.lock
		duration, window, retry := lead.Duration, lead.Window, lead.Retry
		out.LeaseDuration, out.RenewDeadline, out.RetryPeriod = &duration, &window, &retry
	}
	return out
}

// ready: agents can be served.
func (a *App) ready() error {
	_, err := a.keeper.Certificate()
	return err
}

// hubIP is the ClusterIP of the hub's Service: the DNS pod cannot look it up.
func (a *App) hubIP(ctx context.Context) string {
	service := &corev1.Service{}
	err := a.manager.GetClient().Get(ctx, client.ObjectKey{Namespace: a.options.Namespace, Name: "oooi-hub"}, service)
	if err != nil || net.ParseIP(service.Spec.ClusterIP) == nil {
		return ""
	}
	return service.Spec.ClusterIP
}

// broadcast wakes controllers: each channel belongs to one.
type broadcast struct {
	pending []chan struct{}
	out     []chan event.GenericEvent
}

func newBroadcast(n int) *broadcast {
	b := &broadcast{}
	for range n {
		b.pending = append(b.pending, make(chan struct{}, 1))
		b.out = append(b.out, make(chan event.GenericEvent))
	}
	return b
}

func (b *broadcast) channel(i int) <-chan event.GenericEvent { return b.out[i] }

// send wakes the controllers; it never blocks.
func (b *broadcast) send(which ...int) {
	for _, i := range which {
		select {
		case b.pending[i] <- struct{}{}:
		default: // a wake-up is already on its way
		}
	}
}

// Start passes wake-ups on, as the leader: only then do controllers listen.
func (b *broadcast) Start(ctx context.Context) error {
	done := make(chan struct{})
	for i := range b.out {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-ctx.Done():
					return
				case <-b.pending[i]:
				}
				select {
				case <-ctx.Done():
					return
				case b.out[i] <- event.GenericEvent{Object: &v1alpha1.Infra{}}:
				}
			}
		}()
	}
	for range b.out {
		<-done
	}
	return nil
}

// upgradeEvery is how often OLM is told whether an upgrade may go on.
const upgradeEvery = 15 * time.Second

// upgrade tells OLM, where there is one, when the operator may be replaced: the
// data plane does not need it, but a roll-out that is under way should end first.
type upgrade struct{ app *App }

func (a *App) upgradeable() *upgrade { return &upgrade{app: a} }

// +kubebuilder:rbac:groups=operators.coreos.com,namespace=oooi-system,resources=operatorconditions,verbs=get;update
// +kubebuilder:rbac:groups=operators.coreos.com,namespace=oooi-system,resources=operatorconditions/status,verbs=get;update

// Start reports each change until the context ends.
func (u *upgrade) Start(ctx context.Context) error {
	if os.Getenv("OPERATOR_CONDITION_NAME") == "" {
		<-ctx.Done() // not under OLM
		return nil
	}
	direct, err := client.New(u.app.manager.GetConfig(), client.Options{Scheme: u.app.manager.GetScheme()})
	if err != nil {
		return fmt.Errorf("making a client for the OperatorCondition: %w", err)
	}
	ticker := time.NewTicker(upgradeEvery)
	defer ticker.Stop()
	reported := metav1.ConditionUnknown
	for {
		want := metav1.ConditionTrue
		if u.app.rollouts.Active() {
			want = metav1.ConditionFalse
		}
		if want != reported {
			if err := u.report(ctx, direct, want); err == nil {
				reported = want
			} else if ctx.Err() == nil {
				u.app.options.Logger.Warn("reporting to OLM", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (u *upgrade) report(ctx context.Context, c client.Client, want metav1.ConditionStatus) error {
	factory := conditions.InClusterFactory{Client: c}
	condition, err := factory.NewCondition(operatorsv2.ConditionType(operatorsv2.Upgradeable))
	if err != nil {
		return fmt.Errorf("finding the OperatorCondition: %w", err)
	}
	reason, message := v1alpha1.ReasonAsExpected, "the data plane runs on while the operator is replaced"
	if want != metav1.ConditionTrue {
		reason, message = v1alpha1.ReasonRollingOut, "a component's pod is being replaced"
	}
	if err := condition.Set(ctx, want, conditions.WithReason(reason), conditions.WithMessage(message)); err != nil {
		return fmt.Errorf("writing the OperatorCondition: %w", err)
	}
	return nil
}
