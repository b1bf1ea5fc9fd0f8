package hosted

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// The Secrets that hold a kubeconfig, the better one first: the other one names
// an address that the management cluster may not reach.
const (
	serviceNetworkSecret = "service-network-admin-kubeconfig"
	adminSecret          = "admin-kubeconfig"
	kubeconfigKey        = "kubeconfig"
)

// Bounds of a hosted API server's answers.
const (
	callTimeout = 10 * time.Second
	// greetTimeout is for how long one that is not known to answer is waited for:
	// longer than it may take to refuse.
	greetTimeout = 6 * time.Second
	clientQPS    = 20
	clientBurst  = 40
)

// Target is the API server of one hosted cluster.
type Target struct {
	// Namespace of the control plane, and the Service and port in it.
	Namespace, Service string
	Port               uint16
	// Tenant is whose it is: the namespace of its attachment.
	Tenant string
}

func (t Target) serverName() string { return t.Service + "." + t.Namespace + ".svc" }

func (t Target) host() string { return net.JoinHostPort(t.serverName(), strconv.Itoa(int(t.Port))) }

// Dialer opens connections; nil is the usual one.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=service-network-admin-kubeconfig;admin-kubeconfig,verbs=get

// ErrManagement says that it is not the hosted cluster that could not be read, but
// the management cluster that holds its kubeconfig.
var ErrManagement = errors.New("the management cluster")

// ErrNotAsked says that a hosted cluster was not asked: too many others are.
var ErrNotAsked = errors.New("other hosted clusters are asked first")

// NotAskedYet is what is said where nothing else is known.
const NotAskedYet = "the hosted cluster was not asked yet"

// Clients keeps a client for each hosted cluster until its Secret changes.
type Clients struct {
	secrets client.Reader
	scheme  *runtime.Scheme
	dial    Dialer
	through func(http.RoundTripper) http.RoundTripper

	long *longAnswers

	mu    sync.Mutex
	known map[Target]entry // guarded by mu
	works map[Target]*Work // guarded by mu
}

type entry struct {
	digest [sha256.Size]byte
	client client.Client
}

// New makes Clients. secrets reads single Secrets from the API server.
func New(secrets client.Reader, scheme *runtime.Scheme, dial Dialer) *Clients {
	return &Clients{
		secrets: secrets, scheme: scheme, dial: dial, known: map[Target]entry{}, works: map[Target]*Work{}, long: newLongAnswers(),
		through: func(next http.RoundTripper) http.RoundTripper { return next },
	}
}

// Through makes all requests to hosted clusters pass through what wrap gives, and
// returns c. To be called before For.
func (c *Clients) Through(wrap func(http.RoundTripper) http.RoundTripper) *Clients {
	c.through = wrap
	return c
}

// For gives a client of the hosted cluster. The Secret is read on each call,
// so a rotation is followed at once. A client is made anew only for an API server
// that answers.
func (c *Clients) For(ctx context.Context, t Target) (client.Client, error) {
	secret, err := c.secret(ctx, t.Namespace)
	if err != nil {
		return nil, err
	}
	raw := secret.Data[kubeconfigKey]
	digest := sha256.Sum256(append([]byte(string(secret.UID)+"/"), raw...))
	if known, ok := c.get(t, digest); ok {
		return known, nil
	}
	made, err := c.build(ctx, t, secret.Name, raw)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[t] = entry{digest: digest, client: made}
	return made, nil
}

func (c *Clients) get(t Target, digest [sha256.Size]byte) (client.Client, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known[t]
	return e.client, ok && e.digest == digest
}

// Forget drops the client of a hosted cluster: it is gone, or it has refused
// what we know.
func (c *Clients) Forget(t Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, t)
}

func (c *Clients) secret(ctx context.Context, namespace string) (*corev1.Secret, error) {
	for _, name := range []string{serviceNetworkSecret, adminSecret} {
		secret := &corev1.Secret{}
		err := c.secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, outcome.Failed{
				Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "reading Secret " + namespace + "/" + name,
				Err: fmt.Errorf("%w: %w", ErrManagement, err),
			}
		}
		return secret, nil
	}
	return nil, outcome.Waiting{
		Reason: v1alpha1.ReasonHostedClusterAccessFailed, After: 15 * time.Second,
		Message: fmt.Sprintf("namespace %s has neither Secret %s nor %s", namespace, serviceNetworkSecret, adminSecret),
	}
}

func (c *Clients) build(ctx context.Context, t Target, secret string, raw []byte) (client.Client, error) {
	config, err := parse(raw)
	if err != nil {
		return nil, outcome.Invalid{
			Reason:  v1alpha1.ReasonHostedClusterAccessFailed,
			Message: fmt.Sprintf("the kubeconfig in Secret %s/%s is refused: %v", t.Namespace, secret, err),
		}
	}
	config.Host = (&url.URL{Scheme: "https", Host: t.host()}).String()
	config.Timeout = callTimeout
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.QPS, config.Burst = clientQPS, clientBurst
	config.Dial = c.dial
	// Warnings are the tenant's words, and they would go to our log.
	config.WarningHandler = rest.NoWarnings{}
	// The environment's proxy is the management cluster's business.
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return c.through(bounded{next: next, long: c.long, tenant: t.Tenant, work: func() *Work { return c.work(t) }})
	})
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, outcome.Invalid{
			Reason:  v1alpha1.ReasonHostedClusterAccessFailed,
			Message: fmt.Sprintf("the credentials in Secret %s/%s cannot be used", t.Namespace, secret),
		}
	}
	if err := c.greet(ctx, config, t); err != nil {
		return nil, err
	}
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirect }
	made, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: c.scheme})
	if err != nil {
		return nil, outcome.Failed{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "making a client for " + t.host(), Err: err}
	}
	return made, nil
}

// greet shakes hands with a hosted API server: who does not even do that is not to
// take the time of a call.
func (c *Clients) greet(ctx context.Context, config *rest.Config, t Target) error {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	counted := c.work(t).waits()
	err := c.handshake(ctx, config, t)
	counted()
	if err == nil {
		return nil
	}
	w := outcome.Waiting{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "the hosted API server: " + err.Error(), After: 15 * time.Second}
	if ctx.Err() != nil || timedOut(err) {
		w.Message = ErrSilent.Error()
	}
	return w
}

func (c *Clients) handshake(ctx context.Context, config *rest.Config, t Target) error {
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	settings.ServerName = t.serverName()
	dial := c.dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", t.host())
	if err != nil {
		return err
	}
	shaken := tls.Client(conn, settings)
	err = shaken.HandshakeContext(ctx)
	return errors.Join(err, conn.Close())
}

var errRedirect = errors.New("the hosted API server redirects, which is not followed")
