package app_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1 "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// dial opens a stream as an agent does, trusting what its ConfigMap says.
func dial(t *testing.T, o *testenv.Operator, ca []byte, token string, req *agentv1.WatchRequest) (grpc.ServerStreamingClient[agentv1.WatchResponse], error) {
	t.Helper()
	return watch(t, connect(t, o, ca, "127.0.0.1"), token, req)
}

// connect makes a connection from one of this machine's addresses.
func connect(t *testing.T, o *testenv.Operator, ca []byte, source string) agentv1.AgentServiceClient {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca), "the ConfigMap must hold a CA")
	creds := credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "oooi-hub." + testenv.Namespace + ".svc", MinVersion: tls.VersionTLS13})
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	conn, err := grpc.NewClient(o.HubAddr().String(), grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return agentv1.NewAgentServiceClient(conn)
}

func watch(t *testing.T, c agentv1.AgentServiceClient, token string, req *agentv1.WatchRequest) (grpc.ServerStreamingClient[agentv1.WatchResponse], error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return c.Watch(ctx, req)
}

// first is the first answer of a stream.
func first(t *testing.T, o *testenv.Operator, ca []byte, token string, req *agentv1.WatchRequest) (*agentv1.Snapshot, error) {
	t.Helper()
	stream, err := dial(t, o, ca, token, req)
	require.NoError(t, err)
	resp, err := stream.Recv()
	return resp.GetSnapshot(), err
}

// mounted is the snapshot that a child's ConfigMap holds, and its CA.
func mounted(t *testing.T, namespace, name string) (*agentv1.Snapshot, []byte) {
	t.Helper()
	config := &corev1.ConfigMap{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, config))
	reader, err := gzip.NewReader(bytes.NewReader(config.BinaryData["snapshot.json.gz"]))
	require.NoError(t, err)
	text, err := io.ReadAll(reader)
	require.NoError(t, err)
	snapshot := &agentv1.Snapshot{}
	require.NoError(t, protojson.Unmarshal(text, snapshot))
	return snapshot, []byte(config.Data["ca.crt"])
}

// behaviour B12, R2: a token opens only its own child's stream, and the stream
// and the file hold the same snapshot.
func TestATokenOpensOnlyItsOwnChildsStream(t *testing.T) {
	w := build(t, 12, "gamma")
	o := env.Operator(t, testenv.DefaultOptions())
	condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	settled(t, o)
	file, ca := mounted(t, w.namespace, "vlan-dns")
	require.Equal(t, o.HubBundle(), ca)

	request := func(component, name string) *agentv1.WatchRequest {
		return &agentv1.WatchRequest{Component: component, ModuleVersion: "v0.1.0", Contract: "agent.v1", Namespace: w.namespace, Name: name}
	}
	token := func(account string, audiences ...string) string {
		value, err := env.Token(t.Context(), w.namespace, account, audiences...)
		require.NoError(t, err)
		return value
	}
	good := token("vlan-dns", "oooi-hub")
	snapshot, err := first(t, o, ca, good, request("coredns", "vlan-dns"))
	require.NoError(t, err)
	require.Equal(t, file.GetVersion(), snapshot.GetVersion())
	require.Equal(t, file.GetChild().GetUid(), snapshot.GetChild().GetUid())

	old := request("coredns", "vlan-dns")
	old.Contract = "agent.v0"
	for _, c := range []struct {
		name  string
		token string
		req   *agentv1.WatchRequest
		want  codes.Code
	}{
		{"no token", "", request("coredns", "vlan-dns"), codes.Unauthenticated},
		{"rubbish for a token", "abc", request("coredns", "vlan-dns"), codes.Unauthenticated},
		{"a token for the API server", token("vlan-dns"), request("coredns", "vlan-dns"), codes.Unauthenticated},
		{"a token for another audience", token("vlan-dns", "vault"), request("coredns", "vlan-dns"), codes.Unauthenticated},
		{"another child's token", token("vlan-proxy", "oooi-hub"), request("coredns", "vlan-dns"), codes.PermissionDenied},
		{"the own token for another child", good, request("xds-manager", "vlan-proxy"), codes.PermissionDenied},
		{"the own token for the same name of another kind", good, request("dhcpd", "vlan-dns"), codes.PermissionDenied},
		{"an unknown component", good, request("etcd", "vlan-dns"), codes.InvalidArgument},
		{"another contract", good, old, codes.FailedPrecondition},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := first(t, o, ca, c.token, c.req)
			require.Equal(t, c.want, status.Code(err), "%v", err)
		})
	}
}

// behaviour B12: tokens that are signed by nobody cost the API server so many reviews
// and no more, and who asks from another address is served meanwhile.
func TestForgedTokensShutNobodyOut(t *testing.T) {
	w := build(t, 17, "zeta")
	o := env.Operator(t, testenv.DefaultOptions())
	condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	settled(t, o)
	_, ca := mounted(t, w.namespace, "vlan-dns")
	good, err := env.Token(t.Context(), w.namespace, "vlan-dns", "oooi-hub")
	require.NoError(t, err)
	signed := strings.LastIndex(good, ".") + 1
	forged := good[:signed] + strings.Repeat("A", len(good)-signed)

	request := &agentv1.WatchRequest{Component: "coredns", ModuleVersion: "v0.1.0", Contract: "agent.v1", Namespace: w.namespace, Name: "vlan-dns"}
	stranger := connect(t, o, ca, "127.0.0.2")
	answers := map[codes.Code]int{}
	for range 200 {
		stream, err := watch(t, stranger, forged, request)
		require.NoError(t, err)
		_, err = stream.Recv()
		answers[status.Code(err)]++
	}
	require.Len(t, answers, 2, "%v", answers)
	require.Greater(t, answers[codes.ResourceExhausted], answers[codes.Unauthenticated], "%v", answers)
	_, err = first(t, o, ca, good, request)
	require.NoError(t, err)
}

// behaviour D7: a change of the resource reaches the stream at once, with
// another version and generation.
func TestAChangeReachesTheStream(t *testing.T) {
	w := build(t, 13, "delta")
	o := env.Operator(t, testenv.DefaultOptions())
	condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	settled(t, o)
	_, ca := mounted(t, w.namespace, "vlan-dns")
	token, err := env.Token(t.Context(), w.namespace, "vlan-dns", "oooi-hub")
	require.NoError(t, err)
	stream, err := dial(t, o, ca, token, &agentv1.WatchRequest{
		Component: "coredns", Contract: "agent.v1", Namespace: w.namespace, Name: "vlan-dns",
	})
	require.NoError(t, err)
	before, err := stream.Recv()
	require.NoError(t, err)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"infraComponents":{"dns":{"ttlSeconds":7}}}}`))
	started := time.Now()
	require.NoError(t, env.Client.Patch(t.Context(), w.infra, patch))
	after, err := stream.Recv()
	require.NoError(t, err)
	require.Less(t, time.Since(started), 5*time.Second)
	require.Equal(t, uint32(7), after.GetSnapshot().GetDns().GetTtlSeconds())
	require.NotEqual(t, before.GetSnapshot().GetVersion(), after.GetSnapshot().GetVersion())
	require.Greater(t, after.GetSnapshot().GetChild().GetGeneration(), before.GetSnapshot().GetChild().GetGeneration())

	// The child is gone: so is the stream.
	require.NoError(t, env.Client.Delete(t.Context(), w.infra))
	testenv.Eventually(t, patience, func() error {
		_, err = stream.Recv()
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return io.ErrNoProgress
	})
}
