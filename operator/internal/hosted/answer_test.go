package hosted

import (
	"bytes"
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

// read reads an answer of that length, and closes it.
func read(t *testing.T, c *Clients, from Target, length answers) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a", http.NoBody)
	require.NoError(t, err)
	resp, err := bounded{next: length, long: c.long, tenant: from.Tenant, work: func() *Work { return c.work(from) }}.RoundTrip(r)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close(), "also twice")
	return err
}

// hazard 214: however many hosted clusters are asked at one time, few long answers are
// in memory, also after they were read, and one tenant's leave room for another's.
func TestFewLongAnswersAreInMemoryAtOneTime(t *testing.T) {
	const long = 2 * shortAnswer
	require.Greater(t, longOfAll, 2*longOfTenant, "two tenants do not take all places")
	synctest.Test(t, func(t *testing.T) {
		c := New(nil, nil, nil)
		of := func(tenant, cluster string) Target { return Target{Tenant: tenant, Namespace: cluster} }
		var works []*Work
		for i := range longOfTenant {
			to := of("evil", string(rune('a'+i)))
			works = append(works, c.Begin(to))
			require.NoError(t, read(t, c, to, long))
			require.NoError(t, read(t, c, to, long), "one place is enough for all that belongs together")
		}
		require.Len(t, c.long.all, longOfTenant, "what was read is decoded only then")
		require.Nil(t, c.Begin(of("evil", "a")), "its place is one work's")

		late := c.Begin(of("evil", "late"))
		require.NoError(t, read(t, c, of("evil", "late"), shortAnswer/2))
		require.False(t, late.Crowded())
		began := time.Now()
		require.ErrorIs(t, read(t, c, of("evil", "late"), long), ErrNotAsked)
		require.Equal(t, placeWithin, time.Since(began))
		require.True(t, late.Crowded())
		require.Zero(t, late.Waited(), "it was we who let it wait")
		late.End()
		require.NoError(t, read(t, c, of("good", "a"), long))

		again := c.Begin(of("evil", "late"))
		go func() {
			<-time.After(placeWithin / 2)
			works[0].End()
		}()
		require.NoError(t, read(t, c, of("evil", "late"), long), "there is a place soon")
		again.End()
		for _, w := range works {
			w.End()
		}
		require.Empty(t, c.long.all)
		require.Empty(t, c.long.tenants["evil"])
		require.Empty(t, c.works)
	})
}

// slowly answers after some time.
type slowly time.Duration

// RoundTrip implements http.RoundTripper.
func (s slowly) RoundTrip(*http.Request) (*http.Response, error) {
	<-time.After(time.Duration(s))
	return &http.Response{Body: io.NopCloser(s)}, nil
}

// Read implements io.Reader.
func (s slowly) Read([]byte) (int, error) {
	<-time.After(time.Duration(s))
	return 0, io.EOF
}

// hazard 214: what counts as slow is the hosted cluster's own time.
func TestTheTimeOfAHostedClusterIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Work{long: newLongAnswers()}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a", http.NoBody)
		require.NoError(t, err)
		resp, err := bounded{next: slowly(time.Second), work: func() *Work { return w }}.RoundTrip(r)
		require.NoError(t, err)
		<-time.After(time.Minute)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 2*time.Second, w.Waited())
	})
}
