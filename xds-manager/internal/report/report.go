package report

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	writeTimeout = 10 * time.Second
	firstPause   = time.Second
	lastPause    = time.Minute
	// gather lets what happens together be written together; a rejection must
	// still be in status within one second.
	gather = 200 * time.Millisecond
	// maxProblems and maxMessage keep a status far below the object limit.
	maxProblems = 100
	maxMessage  = 1024
)

// Applier writes a stanza.
type Applier interface {
	Apply(ctx context.Context, body []byte) error
}

// Client applies to a real API server.
type Client struct {
	api       dynamic.ResourceInterface
	namespace string
	name      string
}

// NewClient makes a client for one ProxyServer, by kubeconfig or, where that is
// empty, by the pod's own account.
func NewClient(kubeconfig, namespace, name string) (*Client, error) {
	cfg, err := config(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading cluster configuration: %w", err)
	}
	cfg.Timeout = writeTimeout
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making cluster client: %w", err)
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, fmt.Errorf("parsing group: %w", err)
	}
	return &Client{api: d.Resource(gv.WithResource(resource)).Namespace(namespace), namespace: namespace, name: name}, nil
}

func config(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// Apply writes the body to the status subresource, with force: no one else may
// own these fields.
func (c *Client) Apply(ctx context.Context, body []byte) error {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(body); err != nil {
		return fmt.Errorf("encoding status: %w", err)
	}
	if _, err := c.api.ApplyStatus(ctx, c.name, u, metav1.ApplyOptions{FieldManager: fieldOwner, Force: true}); err != nil {
		return fmt.Errorf("applying status: %w", err)
	}
	return nil
}

// Reporter writes the newest stanza that it was given.
type Reporter struct {
	applier         Applier
	namespace, name string
	logger          *slog.Logger

	mu   sync.Mutex // guards next
	next *Agent
	kick chan struct{}
}

// New makes a reporter for one ProxyServer.
func New(a Applier, namespace, name string, logger *slog.Logger) *Reporter {
	return &Reporter{applier: a, namespace: namespace, name: name, logger: logger, kick: make(chan struct{}, 1)}
}

// Set makes a the stanza to be written. It never blocks.
func (r *Reporter) Set(a Agent) {
	a.Problems = tidy(a.Problems)
	r.mu.Lock()
	r.next = &a
	r.mu.Unlock()
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// tidy sorts problems, drops repeated ones and bounds what is left.
func tidy(in []Problem) []Problem {
	out := slices.Clone(in)
	for i := range out {
		out[i].Message = bounded(out[i].Message)
	}
	slices.SortFunc(out, func(a, b Problem) int {
		if c := strings.Compare(a.Reason, b.Reason); c != 0 {
			return c
		}
		return strings.Compare(a.Message, b.Message)
	})
	out = slices.Compact(out)
	return out[:min(len(out), maxProblems)]
}

func bounded(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "")
}

// Run writes until ctx ends. A failed write is tried again with growing pauses,
// whatever is set meanwhile; a newer stanza replaces the one that waits.
func (r *Reporter) Run(ctx context.Context) error {
	var written *Agent
	pause := firstPause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.kick:
		}
		sleep(ctx, gather)
		r.mu.Lock()
		next := r.next
		r.mu.Unlock()
		if ctx.Err() != nil || (written != nil && reflect.DeepEqual(*written, *next)) {
			continue
		}
		if err := r.write(ctx, *next); err != nil {
			r.logger.Warn("status not written", "err", err, "retry", pause.String())
			sleep(ctx, pause)
			pause = min(2*pause, lastPause)
			r.again()
			continue
		}
		written, pause = next, firstPause
	}
}

func (r *Reporter) again() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

func (r *Reporter) write(ctx context.Context, a Agent) error {
	body, err := json.Marshal(wire(r.namespace, r.name, a))
	if err != nil {
		return fmt.Errorf("encoding status: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return r.applier.Apply(ctx, body)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
