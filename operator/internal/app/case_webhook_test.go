package app_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// tries are the times at which the pool was written to the hosted cluster.
type tries struct {
	next http.Handler

	mu   sync.Mutex
	list []time.Time // guarded by mu
}

// ServeHTTP implements http.Handler.
func (c *tries) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/ipaddresspools") {
		c.mu.Lock()
		c.list = append(c.list, time.Now())
		c.mu.Unlock()
	}
	c.next.ServeHTTP(w, r)
}

func (c *tries) all() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Time(nil), c.list...)
}

// webhookAway makes the API server ask a webhook for pools that nobody serves.
func webhookAway(t *testing.T) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	fail, none, url := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, "https://127.0.0.1:9/validate"
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "metallb-webhook-configuration"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "ipaddresspoolvalidationwebhook.metallb.io", FailurePolicy: &fail, SideEffects: &none,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"metallb.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"ipaddresspools"}},
			}},
		}},
	}
	env.Must(t, hook)
	testenv.Eventually(t, patience, func() error {
		u := metalLB("openshift-operators")
		u.SetKind("IPAddressPool")
		u.SetName("probe")
		u.Object["spec"] = map[string]any{"addresses": []any{"198.51.100.1-198.51.100.2"}}
		err := env.Client.Create(t.Context(), u, client.DryRunAll)
		if apierrors.IsInternalError(err) && strings.Contains(err.Error(), "connection refused") {
			return nil
		}
		return fmt.Errorf("the webhook is not asked yet: %w", err)
	})
	return hook
}

// case C50, hazards 124 and 125: MetalLB's webhook is away. The whole operator waits
// for it in Pending, tries every 5 to 15 seconds, logs no error, and has written
// everything within 30 seconds after the webhook has gone.
func TestCaseMetalLBsWebhookIsNotUpYet(t *testing.T) {
	const watched, fastest, slowest, soon = time.Minute, 5 * time.Second, 15 * time.Second, 30 * time.Second
	h := testenv.Hosted{Namespace: "clusters47", Name: "webhook", Workers: []string{"192.0.47.100"}}
	hosts := withOLM(t, h)
	counted := &tries{next: hosts.server.Config.Handler}
	hosts.server.Config.Handler = counted
	hook := webhookAway(t)
	w := build(t, 47, "webhook")
	a := w.attachments[0]
	env.Must(t, hosts.secret(t, h.ControlPlane()))
	merge(t, a, `{"spec":{"appsIngress":{"enabled":true,"metallb":{"addressPoolName":"webhook","ipAddressPoolRange":"192.0.47.200-192.0.47.209"}}}}`)
	log, options := &lines{}, testenv.DefaultOptions()
	options.DialHosted, options.Logger = hosts.dial, slog.New(slog.NewJSONHandler(log, nil))
	env.Operator(t, options)

	waiting := func() error {
		if st := get(t, a).Status.AppsIngressStatus; st == nil || st.Phase != v1alpha1.AppsPhasePending || st.Reason != v1alpha1.ReasonWaitingForMetalLBWebhook {
			return fmt.Errorf("*.apps is %+v", st)
		}
		return nil
	}
	testenv.Eventually(t, 2*patience, waiting)
	condition(t, a, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	before, end := len(counted.all()), time.Now().Add(watched)
	for tick := time.NewTicker(200 * time.Millisecond); time.Now().Before(end); <-tick.C {
		require.NoError(t, waiting())
		for _, c := range a.Status.Conditions {
			require.False(t, c.Type == v1alpha1.ConditionDegraded && c.Status == metav1.ConditionTrue, "%+v", c)
		}
	}
	times := counted.all()[before-1:]
	require.GreaterOrEqual(t, len(times)-1, int(watched/slowest))
	for i := 1; i < len(times); i++ {
		require.GreaterOrEqual(t, times[i].Sub(times[i-1]), fastest)
		require.LessOrEqual(t, times[i].Sub(times[i-1]), slowest+time.Second)
	}
	require.Positive(t, log.count(`"level":"INFO"`), "the log is read")
	require.Zero(t, log.count(`"level":"ERROR"`), "waiting is no error")

	require.NoError(t, env.Client.Delete(t.Context(), hook))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-ingress", Name: "oooi-ingress"}}
	testenv.Eventually(t, soon, func() error { return env.Client.Get(t.Context(), client.ObjectKeyFromObject(service), service) })
	condition(t, a, v1alpha1.ConditionAppsIngressReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForExternalIP)
	require.Zero(t, log.count(`"level":"ERROR"`))
	require.NoError(t, env.Client.Delete(t.Context(), a))
	testenv.Eventually(t, 2*patience, func() error { return env.Gone(t.Context(), a) })
}
