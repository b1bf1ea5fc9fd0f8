package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// served answers with a status and keeps the last query.
type served struct {
	status int
	query  string
}

func (s *served) RoundTrip(r *http.Request) (*http.Response, error) {
	s.query = r.URL.RawQuery
	return &http.Response{StatusCode: s.status, Body: http.NoBody, Request: r}, nil
}

// The first apply of a child warns of fields that the CRD lacks, those after it do not
// ask again; nothing else is changed.
func TestOnlyTheFirstApplyOfAChildAsksForWarnings(t *testing.T) {
	t.Parallel()
	const apply, merge = "application/apply-patch+yaml", "application/merge-patch+json"
	const child = "/apis/hostedcluster.densityops.com/v1alpha1/namespaces/ns/proxyservers/p"
	server := &served{status: http.StatusOK}
	trip := warnOnce{next: server, applied: &sync.Map{}}
	for _, c := range []struct {
		name, path, contentType, want string
		status                        int
	}{
		{"one that fails", child, apply, "force=true", http.StatusServiceUnavailable},
		{"the first that does not", child, apply, "force=true", http.StatusOK},
		{"the second", child, apply, "fieldValidation=Ignore&force=true", http.StatusOK},
		{"the first of its status", child + "/status", apply, "force=true", http.StatusOK},
		{"the second of its status", child + "/status", apply, "fieldValidation=Ignore&force=true", http.StatusOK},
		{"another one", strings.TrimSuffix(child, "p") + "q", apply, "force=true", http.StatusOK},
		{"not applied", child, merge, "force=true", http.StatusOK},
		{"a Deployment", "/apis/apps/v1/namespaces/ns/deployments/p", apply, "force=true", http.StatusOK},
		{"and again", "/apis/apps/v1/namespaces/ns/deployments/p", apply, "force=true", http.StatusOK},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, c.path+"?force=true", nil)
		r.Header.Set("Content-Type", c.contentType)
		server.status = c.status
		resp, err := trip.RoundTrip(r)
		require.NoError(t, err, c.name)
		require.NoError(t, resp.Body.Close(), c.name)
		require.Equal(t, c.want, server.query, c.name)
		require.Equal(t, "force=true", r.URL.RawQuery, "%s: the caller's request is its own", c.name)
	}
}
