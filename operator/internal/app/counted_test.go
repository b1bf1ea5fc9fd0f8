package app

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
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
