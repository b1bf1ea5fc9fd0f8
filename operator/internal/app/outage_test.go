package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/app"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// returns is how soon after its API server the operator has to be at work again.
const returns = 30 * time.Second

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

// process is an operator as main runs it, in this process.
type process struct {
	health string
	log    *lines
	stop   context.CancelFunc
	ended  chan error
}

// startProcess starts one that has a kubeconfig.
func startProcess(t *testing.T, kubeconfig string, mode app.LeaderMode, dial hosted.Dialer) *process {
	t.Helper()
	health, _ := freePorts(t)
	p := &process{health: health, log: &lines{}, ended: make(chan error, 1)}
	options := testenv.DefaultOptions()
	options.Kubeconfig, options.HealthProbeBindAddress, options.LeaderElect = kubeconfig, p.health, mode
	options.Registry, options.DialHosted = prometheus.NewRegistry(), dial
	options.Logger = slog.New(slog.NewJSONHandler(io.MultiWriter(p.log, t.Output()), &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	p.stop = stop
	go func() { p.ended <- app.Run(ctx, options) }()
	t.Cleanup(stop)
	return p
}

// answers gives a probe's status.
func (p *process) answers(t *testing.T, path string) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.health+path, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func (p *process) probe(t *testing.T, path string, want int) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		got, err := p.answers(t, path)
		if err != nil || got != want {
			return fmt.Errorf("%s answers %d, want %d: %w", path, got, want, err)
		}
		return nil
	})
}

// end stops the process and requires that it ends as one that was told to.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.stop()
	select {
	case err := <-p.ended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the operator does not stop")
	}
}

// programmed waits until the Infra's own conditions are of its generation.
func programmed(t *testing.T, e *testenv.Env, infra *v1alpha1.Infra) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil {
			return err
		}
		c := meta.FindStatusCondition(infra.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != infra.Generation {
			return fmt.Errorf("the Infra of generation %d has %+v", infra.Generation, c)
		}
		return nil
	})
}

// An operator that starts without an API server waits for it, and one whose API
// server goes for longer than its Lease lasts goes on when it is back: the process
// never ends, and it is at work again within seconds. A hosted cluster that was away
// as well, and for longer, is seen as soon. hazard 214.
func TestTheOperatorOutlivesItsAPIServer(t *testing.T) {
	for _, mode := range []app.LeaderMode{app.LeaderLease, app.LeaderOff} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			e, err := testenv.Start(false)
			require.NoError(t, err)
			t.Cleanup(e.Stop)
			namespace := "outage-" + string(mode)
			e.Must(t, testenv.NamespaceObject(namespace))
			infra := testenv.Infra(namespace, "vlan", "vlan", 40)
			e.Must(t, infra)
			hosts, a := hostedThere(t, e, namespace)
			p := awayAtTheStart(t, e, infra, mode, hosts.dial)
			asks(t, e, a, v1alpha1.ReasonWaitingForHostedClusterNodes)
			hosts.kill(string(a.Status.ControlPlaneNamespace))
			awayForLong(t, e, infra, p)
			asks(t, e, a, v1alpha1.ReasonHostedClusterAccessFailed)
			hosts.revive(string(a.Status.ControlPlaneNamespace))
			back := time.Now()
			asks(t, e, a, v1alpha1.ReasonWaitingForHostedClusterNodes)
			require.Less(t, time.Since(back), returns)
			t.Logf("the hosted cluster is seen %.1fs after its return", time.Since(back).Seconds())
			p.end(t)
			require.NoError(t, e.Client.Delete(t.Context(), infra))
		})
	}
}

// hostedThere makes a hosted cluster whose apps ingress waits for a worker.
func hostedThere(t *testing.T, e *testenv.Env, namespace string) (*tenants, *v1alpha1.InfraClusterAttachment) {
	t.Helper()
	require.NoError(t, e.Install(t.Context(), testenv.HyperShift, testenv.Multus))
	h := testenv.Hosted{Namespace: namespace, Name: "far"}
	hosts := newTenants(t, e, h.ControlPlane())
	a := testenv.Attachment(namespace, h.Name, "vlan")
	a.Spec.AppsIngress.Enabled = true
	a.Spec.AppsIngress.MetalLB = v1alpha1.AppsMetalLB{AddressPoolName: "far", IPAddressPoolRange: "192.0.40.240-192.0.40.249"}
	e.Must(t, append(h.Objects(), testenv.NAD(namespace, "vlan"), hosts.secret(t, h.ControlPlane()), a)...)
	return hosts, a
}

// asks waits until an attachment says of its apps ingress why it waits.
func asks(t *testing.T, e *testenv.Env, a *v1alpha1.InfraClusterAttachment, reason string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		if st := a.Status.AppsIngressStatus; st == nil || st.Reason != reason {
			return fmt.Errorf("*.apps is %+v", st)
		}
		return nil
	})
}

func awayAtTheStart(t *testing.T, e *testenv.Env, infra *v1alpha1.Infra, mode app.LeaderMode, dial hosted.Dialer) *process {
	t.Helper()
	config, err := e.As(t.Context(), testenv.Namespace, testenv.ServiceAccount)
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, testenv.WriteKubeconfig(kubeconfig, config))
	require.NoError(t, e.StopServer())
	told := startProcess(t, kubeconfig, mode, dial)
	told.probe(t, "/healthz", http.StatusOK)
	told.end(t) // also while it waits

	p := startProcess(t, kubeconfig, mode, dial)
	p.probe(t, "/healthz", http.StatusOK)
	p.probe(t, "/readyz", http.StatusServiceUnavailable)
	testenv.Eventually(t, patience, func() error {
		if p.log.count(`"waiting for the API server"`) == 0 {
			return errors.New("nothing is said")
		}
		return nil
	})
	require.NoError(t, e.StartServer())
	back := time.Now()
	p.probe(t, "/readyz", http.StatusOK)
	programmed(t, e, infra)
	require.Less(t, time.Since(back), returns)
	t.Logf("at work %.1fs after the API server", time.Since(back).Seconds())
	require.Equal(t, 1, p.log.count("the API server cannot be reached"), "it is said once")
	return p
}

// awayForLong is longer than a Lease lasts, and than any back-off is short.
func awayForLong(t *testing.T, e *testenv.Env, infra *v1alpha1.Infra, p *process) {
	t.Helper()
	require.NoError(t, e.StopServer())
	timer := time.NewTimer(40 * time.Second)
	defer timer.Stop()
	select {
	case err := <-p.ended:
		require.FailNow(t, "the operator has ended", "%v", err)
	case <-timer.C:
	}
	p.probe(t, "/healthz", http.StatusOK)
	require.NoError(t, e.StartServer())
	back := time.Now()
	testenv.Eventually(t, patience, func() error {
		// Its status may be written meanwhile.
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil {
			return err
		}
		infra.Spec.InfraComponents.DHCP.LeaseTime = "30m"
		return e.Client.Update(t.Context(), infra)
	})
	programmed(t, e, infra)
	require.Less(t, time.Since(back), returns)
	t.Logf("at work %.1fs after the API server", time.Since(back).Seconds())
	require.Equal(t, 1, p.log.count("requests wait for it"), "it is said once")
}

// cut fails what concerns the leader's Lease, as long as it is on.
type cut struct {
	on   *atomic.Bool
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c cut) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.on.Load() && strings.Contains(r.URL.Path, "/leases/oooi-operator") {
		return nil, errors.New("cut off")
	}
	return c.next.RoundTrip(r)
}

// There are never two leaders: one that cannot renew its Lease writes nothing from
// before another one may lead until it holds the Lease again, and where another
// one leads by then, it ends. hazard 214.
func TestALeaderThatIsCutOffWritesNothing(t *testing.T) {
	w := build(t, 41)
	options := testenv.DefaultOptions()
	options.LeaderElect = app.LeaderLease
	config, err := env.As(t.Context(), testenv.Namespace, testenv.ServiceAccount)
	require.NoError(t, err)
	off := &atomic.Bool{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return cut{off, next} })
	first := testenv.StartOperator(t, config, options)
	programmed(t, env, w.infra)
	quiet(t, first)

	off.Store(true)
	second := env.Operator(t, options)
	leased := func(writes []string) []string {
		var out []string
		for _, line := range writes {
			if !strings.HasSuffix(line, "reviews") && !strings.HasSuffix(line, "/leases/oooi-operator") {
				out = append(out, line)
			}
		}
		return out
	}
	testenv.Eventually(t, patience, func() error {
		if len(leased(second.Writes.Taken())) == 0 {
			return errors.New("the second one does not lead yet")
		}
		return nil
	})
	_ = first.Writes.Taken()
	for i := range 3 {
		testenv.Eventually(t, patience, func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.infra), w.infra); err != nil {
				return err
			}
			w.infra.Spec.InfraComponents.DHCP.LeaseTime = v1alpha1.LeaseTime(fmt.Sprintf("%dm", 31+i))
			return env.Client.Update(t.Context(), w.infra)
		})
		programmed(t, env, w.infra)
	}
	require.Empty(t, leased(first.Writes.Taken()), "the first one sees the changes and must leave them to the second")
	off.Store(false)
	require.ErrorContains(t, first.Wait(), "leader election lost")
	require.Empty(t, leased(first.Writes.Taken()), "what waited is never written")
	require.NoError(t, second.Stop())
}

// quiet waits until an operator writes nothing for a while.
func quiet(t *testing.T, o *testenv.Operator) {
	t.Helper()
	last := time.Now()
	testenv.Eventually(t, patience, func() error {
		for _, line := range o.Writes.Taken() {
			if !strings.Contains(line, "/leases/oooi-operator") {
				last = time.Now()
			}
		}
		if time.Since(last) < 2*time.Second {
			return errors.New("it writes")
		}
		return nil
	})
}
