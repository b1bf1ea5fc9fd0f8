package proxy

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// specOf is the fixture as the spec of a ProxyServer.
func specOf(t *testing.T) map[string]any {
	t.Helper()
	p := fixture(t)["proxy"].(map[string]any)
	for _, b := range backendsOf(p) {
		b["protocol"] = strings.TrimPrefix(b["protocol"].(string), "PROXY_PROTOCOL_")
	}
	return map[string]any{
		"networkConfig": map[string]any{"serverIP": p["serverIp"], "cidr": p["cidr"], "networkAttachmentName": "vlan", "reservedIPs": p["reservedIps"]},
		"backends":      p["backends"], "externalListeners": p["externalListeners"],
	}
}

// clustered is a world whose manager has a cluster.
type clustered struct {
	*world
	*Cluster
}

func newClustered(t *testing.T) clustered {
	t.Helper()
	w := newWorld(t)
	// Both ports of the apps' address answer, or that would be a problem too.
	w.backend(w.VMs, "a-web", netip.AddrPortFrom(VIPA, 80).String())
	c, err := NewCluster(t.Context(), w.Hub, HubIP, w.Dir, specOf(t))
	require.NoError(t, err)
	w.ManagerArgs, err = c.Join(t.Context(), w.Pod)
	require.NoError(t, err)
	w.start()
	return clustered{w, c}
}

func (c clustered) resource() Resource {
	c.t.Helper()
	r, err := c.Resource(c.t.Context())
	require.NoError(c.t, err)
	return r
}

// shows waits until the resource is as wanted.
func (c clustered) shows(limit time.Duration, what string, ok func(Resource) bool) {
	c.t.Helper()
	c.within(limit, what, func() bool {
		r, err := c.Resource(c.t.Context())
		return err == nil && ok(r)
	})
}

func (c clustered) settled(what string) {
	c.t.Helper()
	c.shows(80*time.Second, what, Resource.Settled)
}

// extra is a backend on a port of its own.
var extra = map[string]any{
	"name": "extra", "hostnames": []any{"extra.example.com"}, "port": 8443, "protocol": "TLS",
	"endpoints": []any{map[string]any{"ip": "172.30.10.2", "port": 6443}},
}

func (c clustered) extra() string {
	c.t.Helper()
	return c.from(Stranger, 8443, Named("extra.example.com"), 0)
}

// behaviour E9, H4; hazards 190, 191; case C38c: from the resource by the
// operator's stream to a real Envoy, and what Envoy says of it back into the
// resource's status, on a real API server.
func TestAChangeOfTheResourceReachesEnvoyAndItsAnswerTheStatus(t *testing.T) {
	c := newClustered(t)
	c.settled("Envoy's acceptance is in the status")
	require.Equal(t, "a-api", c.from(WorkerA, 6443, Named(""), 0))
	require.Equal(t, "a-oauth", Probe(t.Context(), c.Hub, netip.Addr{}, netip.AddrPortFrom(PodIP, 443), Named(fqdn("oauth", "a")), 0))
	squatter, err := Listen(c.Pod, netip.AddrPortFrom(VLANIP, 8443))
	require.NoError(t, err)
	before, began := c.resource().Status.Agent, time.Now()

	require.NoError(t, c.Patch(t.Context(), Operation{Op: "add", Path: "/spec/backends/-", Value: extra}))
	c.shows(30*time.Second, "Envoy's refusal is in the status", func(r Resource) bool {
		a := r.Status.Agent
		return len(a.Problems) == 1 && a.Problems[0].Reason == "ConfigRejected" && strings.Contains(a.Problems[0].Message, "Address already in use")
	})
	refused := c.resource().Status.Agent
	require.Equal(t, before.AcceptedVersion, refused.AcceptedVersion, "the last good version is named")
	require.NotEqual(t, before.ObservedVersion, refused.ObservedVersion)
	require.LessOrEqual(t, len(refused.Problems[0].Message), 1100, "the end of Envoy's words")
	c.shows(30*time.Second, "the operator has made a condition of it", func(r Resource) bool {
		for _, cond := range r.Status.Conditions {
			if cond.Reason == "ConfigRejected" && cond.Status != "True" && strings.Contains(cond.Message, "Address already in use") {
				return true
			}
		}
		return false
	})
	require.Equal(t, "a-api", c.from(WorkerA, 6443, Named(""), 0), "everything else is served")
	require.LessOrEqual(t, c.metric(`oooi_xds_nacks_total{type="listener"}`), 1+time.Since(began).Seconds()/10, "no loop: once in ten seconds at most")

	require.NoError(t, squatter.Close())
	c.settled("it is tried again, accepted, and the problem goes away")
	require.Equal(t, "a-oauth", c.extra())
}

// behaviour E11; hazards 187, 188, 189; case C38a, C38b: operator and API server
// end at once, and everything of the pod after them.
func TestEverythingRestartsWithoutOperatorAndAPIServer(t *testing.T) {
	c := newClustered(t)
	require.NoError(t, c.Patch(t.Context(), Operation{Op: "add", Path: "/spec/backends/-", Value: extra}))
	c.settled("Envoy's acceptance is in the status")
	held := c.open(3, WorkerA, 6443, Named(""), "a-api")
	require.NoError(t, c.Operator.Kill())
	require.NoError(t, c.APIServer.Kill())
	require.NoError(t, c.Manager.Kill())
	require.Equal(t, "a-oauth", c.extra(), "Envoy goes on alone")
	require.NoError(t, c.StartManager())
	require.NoError(t, c.Ready(t.Context()), "the manager has the last good snapshot on disk")
	require.Equal(t, len(held), alive(held), "open connections outlive operator, API server and manager")
	require.NoError(t, c.Manager.Kill())
	require.NoError(t, c.Envoy.Kill())
	require.NoError(t, c.Start(t.Context()), "both start from disk")
	require.Equal(t, "a-oauth", c.extra(), "with the last snapshot that Envoy had accepted")
	require.Equal(t, "b-api", c.from(WorkerB, 6443, Named(""), 0))

	require.NoError(t, c.StartAPI(t.Context()))
	require.NoError(t, c.StartOperator())
	require.NoError(t, c.Patch(t.Context(), Operation{Op: "remove", Path: "/spec/backends/15"}))
	c.until(60*time.Second, "the operator's stream is taken up again", func() bool { return c.extra() == "refused" })
	c.settled("the status is written again")
}
