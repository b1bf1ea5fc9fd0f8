package app

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/densityops/oooi/operator/internal/lead"
)

type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Body: http.NoBody}, nil
}

func TestWritesAreCountedByResource(t *testing.T) {
	for _, c := range []struct{ name, method, path, want string }{
		{"a status", "PATCH", "/apis/hostedcluster.densityops.com/v1alpha1/namespaces/ns/infras/a/status", "infras/status"},
		{"an object", "PATCH", "/apis/networking.k8s.io/v1/namespaces/ns/networkpolicies/p", "networkpolicies"},
		{"a new object", "POST", "/api/v1/namespaces/ns/configmaps", "configmaps"},
		{"a namespace", "PATCH", "/api/v1/namespaces/ns", "namespaces"},
		{"what belongs to the cluster", "PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/b", "clusterrolebindings"},
		{"no resource at all", "POST", "/version", "other"},
		{"a question", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", ""},
		{"a read", "GET", "/api/v1/namespaces/ns/configmaps/c", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got string
			request, err := http.NewRequestWithContext(t.Context(), c.method, "https://192.0.2.1"+c.path, http.NoBody)
			require.NoError(t, err)
			answer, err := counted{next: nowhere{}, wrote: func(_, resource string) { got = resource }}.RoundTrip(request)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, c.want, got)
		})
	}
}

// A write that waits is not counted before it is sent.
func TestWritesAreCountedWhenTheyAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		wrote := &atomic.Int32{}
		a := &App{options: Options{Logger: slog.New(slog.DiscardHandler), LeaderElect: LeaderOff}}
		config, err := a.connect(ctx, &rest.Config{Host: "https://api.example.com", Transport: nowhere{}},
			func(string, string) { wrote.Add(1) }, func() {})
		require.NoError(t, err)
		through, err := rest.TransportFor(config)
		require.NoError(t, err)
		send := func() <-chan error {
			done := make(chan error, 1)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "https://api.example.com/api/v1/namespaces/ns", http.NoBody)
			require.NoError(t, err)
			go func() {
				answer, err := through.RoundTrip(r)
				if err == nil {
					err = answer.Body.Close()
				}
				done <- err
			}()
			return done
		}
		a.term.Renewed(time.Now().Add(-lead.Window))
		first := send()
		synctest.Wait()
		require.Empty(t, first)
		require.Zero(t, wrote.Load())
		a.term.Renewed(time.Now())
		require.NoError(t, <-first)
		require.Equal(t, int32(1), wrote.Load())
		a.term.Renewed(time.Now().Add(-lead.Window))
		never := send()
		stop()
		require.ErrorIs(t, <-never, lead.ErrUnsure)
		require.Equal(t, int32(1), wrote.Load())
	})
}
