package hosted

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// answers gives the same answer to each request.
type answers int

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Body: io.NopCloser(bytes.NewReader(make([]byte, a)))}, nil
}

// hazard 214: however many hosted clusters are asked at one time, few long answers are
// in memory, and one tenant's leave room for another's.
func TestFewLongAnswersAreReadAtOneTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := newLongAnswers()
		open := func(tenant string, length answers) io.ReadCloser {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a", http.NoBody)
			require.NoError(t, err)
			resp, err := bounded{next: length, long: places, tenant: tenant}.RoundTrip(r)
			require.NoError(t, err)
			return resp.Body
		}
		read := func(body io.Reader) {
			_, err := io.Copy(io.Discard, body)
			require.NoError(t, err)
		}
		const long = 2 * shortAnswer
		var bodies []io.ReadCloser
		for range longOfTenant {
			body := open("evil", long)
			read(body)
			bodies = append(bodies, body)
		}
		read(open("evil", shortAnswer/2))
		body := open("good", long)
		read(body)
		require.NoError(t, body.Close())

		fifth := make(chan struct{})
		go func() {
			body := open("evil", long)
			read(body)
			_ = body.Close()
			close(fifth)
		}()
		synctest.Wait()
		require.Len(t, places.tenants["evil"], longOfTenant, "the fifth waits")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := places.take(ctx, "evil")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, bodies[0].Close())
		<-fifth
		for _, b := range bodies {
			require.NoError(t, b.Close(), "also twice")
		}
		require.Empty(t, places.all)
		require.Empty(t, places.tenants["evil"])
	})
}
