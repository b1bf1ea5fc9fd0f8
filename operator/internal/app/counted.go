package app

import (
	"net/http"
	"strings"

	"github.com/densityops/oooi/operator/internal/lead"
)

// counted counts the requests that write.
type counted struct {
	next  http.RoundTripper
	wrote func(verb, resource string)
}

// RoundTrip implements http.RoundTripper.
func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if lead.Stores(r) {
		c.wrote(r.Method, resourceOf(r.URL.Path))
	}
	return c.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go cancel a request.
func (c counted) WrappedRoundTripper() http.RoundTripper { return c.next }

// resourceOf is the resource that a path of the API leads to, with its
// subresource: "pods", "infras/status".
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	default:
		return "other"
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}
