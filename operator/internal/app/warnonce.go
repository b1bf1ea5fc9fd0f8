package app

import (
	"net/http"
	"strings"
	"sync"
)

// warnOnce asks for warnings about unknown fields where they can tell something: at
// the first apply of a child's spec and of its status, whether the CRDs are as old as
// this operator. For them the API server reads all that is applied once more, and a
// child is big and applied often.
type warnOnce struct {
	next    http.RoundTripper
	applied *sync.Map // paths of what was applied
}

// RoundTrip implements http.RoundTripper.
func (w warnOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") || !isChild(resourceOf(r.URL.Path)) {
		return w.next.RoundTrip(r)
	}
	path := r.URL.Path
	if _, before := w.applied.Load(path); before {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set("fieldValidation", "Ignore")
		r.URL.RawQuery = query.Encode()
	}
	resp, err := w.next.RoundTrip(r)
	if err == nil && resp.StatusCode < http.StatusMultipleChoices {
		w.applied.Store(path, true)
	}
	return resp, err
}

// WrappedRoundTripper lets client-go cancel a request.
func (w warnOnce) WrappedRoundTripper() http.RoundTripper { return w.next }

// isChild: the spec of a child, or its status.
func isChild(resource string) bool {
	switch resource, _, _ := strings.Cut(resource, "/"); resource {
	case "dhcpservers", "dnsservers", "proxyservers":
		return true
	}
	return false
}
