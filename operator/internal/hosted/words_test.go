package hosted_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/densityops/oooi/operator/internal/hosted"
)

// behaviours B8, H2: every way of not answering has one wording, and an answer that
// is no Status says more than client-go's "unknown".
func TestWordsOfAHostedCluster(t *testing.T) {
	t.Parallel()
	const silent = "the hosted API server does not answer"
	nodes := schema.GroupResource{Resource: "nodes"}
	page := apierrors.NewGenericServerResponse(403, "get", nodes, "", "<html>go away</html>", 0, true)
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"a deadline", fmt.Errorf("listing nodes: %w", context.DeadlineExceeded), silent},
		{"a client's timeout", fmt.Errorf("listing nodes: %w", &url.Error{Op: "Get", URL: "https://a/api", Err: os.ErrDeadlineExceeded}), silent},
		{"a connection's", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, silent},
		{"the limiter's", errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"), silent},
		{"a refused connection", errors.New("connection refused"), "connection refused"},
		{"a Status", fmt.Errorf("listing nodes: %w", apierrors.NewForbidden(nodes, "", errors.New("not you"))), "nodes is forbidden: not you"},
		{"a page", fmt.Errorf("listing nodes: %w", page), "<html>go away</html> (get nodes)"},
		{
			"nothing at all", &apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "unknown"}},
			"the hosted API server answers 403 Forbidden",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, hosted.Words(tt.err))
		})
	}
}
