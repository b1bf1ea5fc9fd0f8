package hosted

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answers gives the same answer to each request.
type answers int

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(make([]byte, a)))}, nil
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
	return &http.Response{Header: http.Header{}, Body: io.NopCloser(s)}, nil
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

// body answers each request with the same text, in pieces of some length.
type body struct {
	text  []byte
	kind  string
	piece int
}

// RoundTrip implements http.RoundTripper.
func (b body) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Content-Type": {b.kind}}, Body: io.NopCloser(pieces{bytes.NewReader(b.text), b.piece})}, nil
}

type pieces struct {
	text *bytes.Reader
	long int
}

// Read implements io.Reader: the end comes with the last of it.
func (p pieces) Read(b []byte) (int, error) {
	n, err := p.text.Read(b[:min(len(b), p.long)])
	if p.text.Len() == 0 {
		err = io.EOF
	}
	return n, err
}

// readBy gives what a way to read an answer gives.
func readBy(t *testing.T, b body, way func(io.Reader) (int, error)) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a", http.NoBody)
	require.NoError(t, err)
	resp, err := bounded{next: b, long: newLongAnswers(), tenant: "t", work: func() *Work { return nil }}.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer func() { require.NoError(t, resp.Body.Close()) }()
	return way(resp.Body)
}

// readAll reads an answer, and gives how much of it was read.
func readAll(t *testing.T, b body) (int, error) {
	t.Helper()
	return readBy(t, b, func(r io.Reader) (int, error) {
		n, err := io.Copy(io.Discard, r)
		return int(n), err
	})
}

// list of objects with something in it, as long as an answer may be.
func list(before, item, after string) []byte {
	n := (maxAnswer - len(before) - len(after) - 1) / (len(item) + 1)
	return []byte(before + strings.Repeat(item+",", n-1) + item + after)
}

// behaviour G7, hazard 214: however little of an answer it takes, what decoding it
// costs in memory is bounded.
func TestWhatAnAnswerCostsInMemoryIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name string
		text []byte
	}{
		{"objects", list(`{"items":[`, "{}", "]}")},
		{"nothings, each of which becomes an object", list(`{"items":[`, "null", "]}")},
		{"numbers, each of which becomes an object", list(`{"items":[`, "0", "]}")},
		{"empty lists", list(`{"items":[{"spec":[`, "[]", "]}]}")},
		{"numbers in a list of one", list(`{"items":[{"spec":{"containers":[`, "0", "]}}]}")},
		{"empty texts", list(`{"items":[{"a":[`, `""`, "]}]}")},
		{"fields", list(`{"items":[{"a":{`, `"a\"[":0`, "}}]}")},
		{"lists in lists", bytes.Repeat([]byte("["), maxAnswer-1)},
		{"objects with a list each", list(`{"items":[`, `{"spec":{"volumes":[0]}}`, "]}")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, piece := range []int{1000, maxAnswer} {
				_, err := readAll(t, body{tt.text, "application/json", piece})
				require.ErrorIs(t, err, errTooLong)
			}
		})
	}
	t.Run("all of it at once", func(t *testing.T) {
		text := list(`{"items":[`, "{}", "]}")[:shortAnswer]
		_, err := readBy(t, body{text, "application/json", len(text)}, func(r io.Reader) (int, error) { return r.Read(make([]byte, len(text))) })
		require.ErrorIs(t, err, errTooLong)
	})
}

// behaviour G7: what a hosted cluster answers as a rule is read, and marks in its texts
// cost nothing.
func TestUsualAnswersAreRead(t *testing.T) {
	strange := `{"kind":"NodeList","items":[{"a":"` + strings.Repeat(`[{\"\\,`, maxAnswer/8) + `"}]}`
	images := `{"names":["registry.example.com/a@sha256:0","registry.example.com/a:1"],"sizeBytes":1}`
	node := `{"metadata":{"name":"n","managedFields":[{"fieldsV1":{` + strings.Repeat(`"f:a":{},`, 200) + `"f:b":{}}}]},"status":{"images":[` +
		strings.Repeat(images+",", 49) + images + `]}}`
	resource := `{"resource":"things","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["t"],"subresources":[` +
		`{"subresource":"status","verbs":["get","patch","update"]}]}`
	for _, tt := range []struct {
		name, text string
		short      bool
	}{
		{"a long text", strange, false},
		{"ten nodes", `{"items":[` + strings.Repeat(node+",", 9) + node + `]}`, true},
		{"a hundred objects of their size", `{"items":[` + strings.Repeat(node+",", 99) + node + `]}`, false},
		{"the discovery of 3000 kinds", `{"items":[{"versions":[{"resources":[` + strings.Repeat(resource+",", 2999) + resource + `]}]}]}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := readAll(t, body{[]byte(tt.text), "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", 1000})
			require.NoError(t, err)
			require.Equal(t, len(tt.text), n)
			r := &reckoner{}
			require.Equal(t, tt.short, len(tt.text) < shortAnswer && r.reckon([]byte(tt.text)) < shortCost)
		})
	}
}

// behaviour G7: nothing is decoded whose cost cannot be told, whatever our client could
// decode; an answer in words is one that it shows and does not decode.
func TestOnlyJSONIsDecoded(t *testing.T) {
	for kind, read := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "": true, "text/plain; charset=utf-8": true,
		"application/yaml": false, "application/vnd.kubernetes.protobuf": false, "application/cbor": false, "application/json; =": false,
	} {
		_, err := readAll(t, body{[]byte("items:\n-\n-\n"), kind, 1000})
		if read {
			require.NoError(t, err, kind)
		} else {
			require.ErrorIs(t, err, errNoJSON, kind)
		}
	}
	silent := &http.Response{Header: http.Header{}}
	require.NoError(t, legible(silent))
	require.Equal(t, "application/json", silent.Header.Get("Content-Type"), "else a client for metadata would take it for Protocol Buffers")
}

// heard keeps what a request accepts.
type heard struct{ accept string }

// RoundTrip implements http.RoundTripper.
func (h *heard) RoundTrip(r *http.Request) (*http.Response, error) {
	h.accept = r.Header.Get("Accept")
	return &http.Response{Header: http.Header{}, Body: http.NoBody}, nil
}

// behaviour G7: nothing but JSON is asked for where JSON would do.
func TestOnlyJSONIsAskedFor(t *testing.T) {
	const metadata = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for accept, want := range map[string]string{
		"application/vnd.kubernetes.protobuf" + metadata + ",application/json" + metadata + ",application/json": "application/json" + metadata + ",application/json",
		"application/json, */*": "application/json",
		"":                      "",
		"text/plain":            "text/plain",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Accept", accept)
		next := &heard{}
		resp, err := bounded{next: next, long: newLongAnswers(), work: func() *Work { return nil }}.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, next.accept)
		require.Equal(t, accept, r.Header.Get("Accept"), "the caller's request stays as it is")
	}
}

// behaviour G7: no struct that an answer is decoded into is larger than it is reckoned.
func TestStructsCostNoMoreThanIsReckoned(t *testing.T) {
	for _, item := range []any{
		corev1.Node{},
		corev1.Service{},
		appsv1.DaemonSet{},
		batchv1.Job{},
		operatorsv1alpha1.Subscription{},
		operatorsv1alpha1.InstallPlan{},
		operatorsv1alpha1.CatalogSource{},
		metav1.PartialObjectMetadata{},
		apidiscoveryv2.APIGroupDiscovery{},
		metav1.APIResource{},
		metav1.APIGroup{},
	} {
		require.LessOrEqual(t, reflect.TypeOf(item).Size(), uintptr(costItem), "%T", item)
	}
	for _, element := range []any{
		corev1.Container{},
		corev1.EphemeralContainer{},
		corev1.Volume{},
		corev1.ContainerImage{},
		corev1.TopologySpreadConstraint{},
		operatorsv1alpha1.Step{},
		metav1.ManagedFieldsEntry{},
		metav1.Condition{},
		apidiscoveryv2.APIResourceDiscovery{},
	} {
		require.LessOrEqual(t, reflect.TypeOf(element).Size(), uintptr(costElement), "%T", element)
	}
}
