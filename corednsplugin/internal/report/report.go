package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	clog "github.com/coredns/coredns/plugin/pkg/log"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var log = clog.NewWithPlugin("oooi")

// ErrNoCluster is returned where there is no cluster to report to.
var ErrNoCluster = errors.New("neither a kubeconfig nor a cluster around us")

var resource = schema.GroupVersionResource{Group: "hostedcluster.densityops.com", Version: "v1alpha1", Resource: "dnsservers"}

const (
	minGap     = time.Second // between two writes
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	timeout    = 10 * time.Second
)

// Writer applies one document.
type Writer interface {
	Write(ctx context.Context, o Object) error
}

// Reporter writes the newest report.
type Reporter struct {
	writer Writer
	next   chan Object
}

// New returns a reporter that writes through w once it runs.
func New(w Writer) *Reporter { return &Reporter{writer: w, next: make(chan Object, 1)} }

// Set replaces what is to be reported. It never blocks. Only one goroutine may
// call it.
func (r *Reporter) Set(o Object) {
	select {
	case <-r.next: // not taken yet: outdated
	default:
	}
	r.next <- o
}

// Run writes until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	var want, have *Object
	backoff := minBackoff
	wake := time.NewTimer(0)
	defer wake.Stop()
	idle := true // no write is due
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-r.next:
			want = &o
			if idle {
				idle = false
				wake.Reset(0)
			}
			continue
		case <-wake.C:
		}
		if want == nil || have != nil && reflect.DeepEqual(*want, *have) {
			idle = true
			continue
		}
		if err := r.write(ctx, *want); err != nil {
			if ctx.Err() != nil {
				return
			}
			log.Warningf("Reporting status: %v", err)
			wake.Reset(backoff/2 + rand.N(backoff/2))
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		have, backoff = want, minBackoff
		wake.Reset(minGap) // then look again: what came meanwhile is one write
	}
}

func (r *Reporter) write(ctx context.Context, o Object) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.writer.Write(ctx, o)
}

// Cluster writes to a Kubernetes API server.
type Cluster struct{ client dynamic.Interface }

// NewCluster connects by the kubeconfig, or by the service account of the pod.
func NewCluster(kubeconfig string) (*Cluster, error) {
	cfg, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making client: %w", err)
	}
	return &Cluster{client: client}, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("reading kubeconfig: %w", err)
		}
		return cfg, nil
	}
	cfg, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, ErrNoCluster
	}
	return cfg, err
}

// Write implements Writer.
func (c *Cluster) Write(ctx context.Context, o Object) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encoding status: %w", err)
	}
	u := new(unstructured.Unstructured)
	if err := u.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("encoding status: %w", err)
	}
	_, err = c.client.Resource(resource).Namespace(o.Metadata.Namespace).ApplyStatus(ctx, o.Metadata.Name, u,
		metav1.ApplyOptions{FieldManager: FieldOwner, Force: true})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("resource %s/%s is gone", o.Metadata.Namespace, o.Metadata.Name)
	}
	return err
}
