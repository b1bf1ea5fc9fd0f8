package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/densityops/oooi/xds-manager/internal/translate"
)

// pub makes a publication of resources written "name@version".
func pub(version string, clusters, listeners, routes []string) *goal {
	list := func(in []string) []translate.Resource {
		var out []translate.Resource
		for _, s := range in {
			name, v, _ := strings.Cut(s, "@")
			out = append(out, translate.Resource{Name: name, Version: v})
		}
		return out
	}
	return newGoal(&Publication{Version: version, Resources: translate.Resources{Clusters: list(clusters), Listeners: list(listeners), Routes: list(routes)}})
}

// peer is the other end, an Envoy: it holds what it took and rejects what it is told to.
type peer struct {
	t       *testing.T
	s       *session
	now     time.Time
	target  *goal
	good    *goal
	holds   map[string]map[string]string
	rejects map[string]bool
	// log is every response, in order, as "type +names -names".
	log []string
	// hold keeps answers back.
	hold    bool
	waiting []*discoveryv3.DeltaDiscoveryResponse
}

func newEnvoy(t *testing.T) *peer {
	t.Helper()
	return &peer{
		t: t, s: newSession(10 * time.Minute), now: time.Unix(1700000000, 0), rejects: map[string]bool{},
		holds: map[string]map[string]string{ClusterType: {}, ListenerType: {}, RouteType: {}},
	}
}

func short(typ string) string { return strings.ToLower(typ[strings.LastIndexByte(typ, '.')+1:]) }

// connect opens the stream as Envoy does: clusters first, listeners once those
// are answered.
func (e *peer) connect() *peer {
	e.s.receive(e.now, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: maps.Clone(e.holds[ClusterType])})
	e.turn()
	e.s.receive(e.now, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: ListenerType, InitialResourceVersions: maps.Clone(e.holds[ListenerType])})
	e.turn()
	return e
}

func (e *peer) publish(g *goal) {
	e.target = g
	e.turn()
}

// turn steps and answers until there is nothing left to say.
func (e *peer) turn() {
	for range 200 {
		out := e.s.step(e.now, e.target, e.good)
		if len(out) == 0 {
			return
		}
		for _, r := range out {
			e.note(r)
			if e.hold {
				e.waiting = append(e.waiting, r)
			} else {
				e.answer(r)
			}
		}
	}
	require.Fail(e.t, "the session never comes to rest", strings.Join(e.log, "\n"))
}

func (e *peer) note(r *discoveryv3.DeltaDiscoveryResponse) {
	words := []string{short(r.TypeUrl)}
	for _, x := range r.Resources {
		words = append(words, "+"+x.Name+"@"+x.Version)
	}
	for _, n := range r.RemovedResources {
		words = append(words, "-"+n)
	}
	e.log = append(e.log, strings.Join(words, " "))
}

func (e *peer) answer(r *discoveryv3.DeltaDiscoveryResponse) {
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}
	for _, x := range r.Resources {
		if e.rejects[x.Name+"@"+x.Version] {
			req.ErrorDetail = &rpcstatus.Status{Message: "no " + x.Name}
			continue
		}
		e.holds[r.TypeUrl][x.Name] = x.Version
	}
	for _, n := range r.RemovedResources {
		delete(e.holds[r.TypeUrl], n)
	}
	e.s.receive(e.now, req)
}

func (e *peer) drained() []string {
	out := e.log
	e.log = nil
	return out
}

func (e *peer) pass(d time.Duration) {
	e.now = e.now.Add(d)
	e.turn()
}

// behaviour E9; hazard 188.
func TestNothingIsSentBeforeTheFirstPublication(t *testing.T) {
	e := newEnvoy(t).connect()
	require.Empty(t, e.drained())
	require.False(t, e.s.once)
	e.publish(pub("v1", nil, nil, nil))
	require.Equal(t, []string{"cluster", "listener"}, e.drained(), "an empty publication is answered, so that Envoy's start goes on")
	require.True(t, e.s.once)
	require.Equal(t, "v1", e.s.accepted)
}

// behaviour E8; hazard 192.
func TestListenersWaitForTheClustersAcknowledgement(t *testing.T) {
	e := newEnvoy(t)
	e.publish(pub("v1", []string{"a@1"}, []string{"l@1"}, nil))
	e.connect()
	require.Equal(t, []string{"cluster +a@1", "listener +l@1"}, e.drained())
	e.hold = true
	e.publish(pub("v2", []string{"a@1", "b@1"}, []string{"l@2"}, nil))
	require.Equal(t, []string{"cluster +b@1"}, e.drained(), "no listener while the cluster is on its way")
	require.Equal(t, "v1", e.s.accepted)
	e.hold = false
	e.answer(e.waiting[0])
	e.turn()
	require.Equal(t, []string{"listener +l@2"}, e.drained())
	require.Equal(t, "v2", e.s.accepted)
}

// behaviour E8; hazard 193.
func TestAClusterGoesOneDrainTimeAfterItsListener(t *testing.T) {
	e := newEnvoy(t)
	e.publish(pub("v1", []string{"a@1", "b@1"}, []string{"l@1"}, nil))
	e.connect()
	e.drained()
	e.publish(pub("v2", []string{"a@1"}, []string{"l@2"}, nil))
	require.Equal(t, []string{"listener +l@2"}, e.drained())
	e.pass(9 * time.Minute)
	require.Empty(t, e.drained())
	at, ok := e.s.wake(e.now)
	require.True(t, ok)
	require.Equal(t, time.Minute, at.Sub(e.now))
	e.pass(time.Minute)
	require.Equal(t, []string{"cluster -b"}, e.drained())
	_, ok = e.s.wake(e.now)
	require.False(t, ok, "nothing is left to wake for")
}

func TestAClusterThatComesBackInTimeIsNeverRemoved(t *testing.T) {
	e := newEnvoy(t)
	e.publish(pub("v1", []string{"a@1", "b@1"}, []string{"l@1"}, nil))
	e.connect()
	e.publish(pub("v2", []string{"a@1"}, []string{"l@2"}, nil))
	e.pass(9 * time.Minute)
	e.publish(pub("v3", []string{"a@1", "b@1"}, []string{"l@1"}, nil))
	e.drained()
	e.pass(time.Hour)
	require.Empty(t, e.drained())
}

// hazard 260: what replaces a listener is there before that one goes.
func TestANewListenerComesBeforeTheOldOneGoes(t *testing.T) {
	e := newEnvoy(t)
	e.publish(pub("v1", []string{"a@1"}, []string{"vlan-192.0.2.4-443@1"}, nil))
	e.connect()
	e.drained()
	e.publish(pub("v2", []string{"a@1"}, []string{"vlan-192.0.2.5-443@1"}, nil))
	require.Equal(t, []string{"listener +vlan-192.0.2.5-443@1", "listener -vlan-192.0.2.4-443"}, e.drained())
}

// hazard 187; case C38a.
func TestAReconnectWithEqualContentSendsNoResource(t *testing.T) {
	e := newEnvoy(t)
	e.publish(pub("v1", []string{"a@1", "b@1"}, []string{"l@1", "m@1"}, nil))
	e.connect()
	e.drained()
	again := newEnvoy(t)
	again.holds = e.holds
	again.publish(pub("v1", []string{"a@1", "b@1"}, []string{"l@1", "m@1"}, nil))
	again.connect()
	require.Equal(t, []string{"cluster", "listener"}, again.drained())
	require.True(t, again.s.once)
}

func TestAReconnectSendsWhatDiffersAndRemovesWhatIsGone(t *testing.T) {
	e := newEnvoy(t)
	e.holds = map[string]map[string]string{ClusterType: {"a": "1", "old": "1"}, ListenerType: {"l": "1", "gone": "1"}, RouteType: {}}
	e.publish(pub("v2", []string{"a@2"}, []string{"l@1"}, nil))
	e.connect()
	require.Equal(t, []string{"cluster +a@2", "listener -gone"}, e.drained())
	e.pass(11 * time.Minute)
	require.Equal(t, []string{"cluster -old"}, e.drained())
}

// behaviour E9; hazards 190, 191; case C38c.
func TestARejectedListenerHoldsUpNoOtherAndIsNotSentAgainInALoop(t *testing.T) {
	e := newEnvoy(t)
	e.publish(pub("v1", []string{"a@1"}, []string{"k@1", "l@1", "m@1"}, nil))
	e.connect()
	e.drained()
	e.rejects["l@2"] = true
	e.publish(pub("v2", []string{"a@1"}, []string{"k@2", "l@2", "m@2"}, nil))
	require.Equal(t, []string{"listener +k@2", "listener +l@2", "listener +m@2"}, e.drained())
	require.Equal(t, map[string]string{"k": "2", "l": "1", "m": "2"}, e.holds[ListenerType], "the last good version stays")
	require.Equal(t, []Rejection{{ListenerType, "l", "no l"}}, e.s.rejections())
	require.Equal(t, "v1", e.s.accepted, "v2 is not accepted")
	sent := 0
	for range 3600 {
		e.pass(time.Second)
		sent += len(e.drained())
	}
	require.LessOrEqual(t, sent, 20, "an hour of rejection: 10 s, 20 s, ... then every five minutes")
	require.GreaterOrEqual(t, sent, 10)
	delete(e.rejects, "l@2")
	e.pass(5 * time.Minute)
	require.Equal(t, []string{"listener +l@2"}, e.drained(), "what failed for a passing reason gets in force without a change")
	require.Equal(t, "v2", e.s.accepted)
	require.Empty(t, e.s.rejections())
}

func TestANewVersionOfARejectedListenerIsSentAtOnce(t *testing.T) {
	e := newEnvoy(t)
	e.rejects["l@1"] = true
	e.publish(pub("v1", nil, []string{"l@1"}, nil))
	e.connect()
	require.False(t, e.s.once, "a fresh Envoy without the listener is not in force")
	e.drained()
	e.publish(pub("v2", nil, []string{"l@2"}, nil))
	require.Equal(t, []string{"listener +l@2"}, e.drained())
	require.True(t, e.s.once)
	require.Empty(t, e.s.rejections())
}

// hazard 190: roll back to the last accepted one.
func TestAFreshEnvoyGetsTheLastGoodVersionOfWhatItRejects(t *testing.T) {
	e := newEnvoy(t)
	e.good = pub("v1", []string{"a@1", "old@1"}, []string{"l@1"}, nil)
	e.rejects["l@2"] = true
	e.publish(pub("v2", []string{"a@1"}, []string{"l@2"}, nil))
	e.connect()
	require.Equal(t, []string{"cluster +a@1", "listener +l@2", "cluster +old@1", "listener +l@1"}, e.drained())
	require.Equal(t, map[string]string{"l": "1"}, e.holds[ListenerType])
	require.Equal(t, []Rejection{{ListenerType, "l", "no l"}}, e.s.rejections())
}

func TestARejectedClusterIsFoundAmongManyAndTheOthersAreInForce(t *testing.T) {
	e := newEnvoy(t)
	var clusters []string
	for i := range 1000 {
		clusters = append(clusters, fmt.Sprintf("c%03d@1", i))
	}
	e.rejects["c637@1"] = true
	e.publish(pub("v1", clusters, []string{"l@1"}, nil))
	e.connect()
	log := e.drained()
	require.Less(t, len(log), 40, "the culprit is found by halving")
	require.Len(t, e.holds[ClusterType], 999)
	require.Equal(t, "1", e.holds[ListenerType]["l"], "listeners go on without the culprit")
	require.Equal(t, []Rejection{{ClusterType, "c637", "no c637"}}, e.s.rejections())
}

func TestAGoneBackVersionIsSentAfterARejectedBatch(t *testing.T) {
	e := newEnvoy(t)
	e.publish(pub("v1", []string{"a@1", "b@1"}, nil, nil))
	e.connect()
	e.rejects["b@2"] = true
	e.publish(pub("v2", []string{"a@2", "b@2"}, nil, nil))
	e.publish(pub("v3", []string{"a@1", "b@1"}, nil, nil))
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, e.holds[ClusterType])
	require.Equal(t, "v3", e.s.accepted)
}

// behaviour E3: routes follow the listener that names them.
func TestRouteConfigurationsAreServedByName(t *testing.T) {
	e := newEnvoy(t)
	e.publish(pub("v1", []string{"a@1"}, []string{"l@1"}, []string{"r@1", "other@1"}))
	e.connect()
	require.False(t, e.s.once, "Envoy has not asked for its routes yet")
	e.s.receive(e.now, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: RouteType, ResourceNamesSubscribe: []string{"r"}})
	e.turn()
	require.Equal(t, []string{"cluster +a@1", "listener +l@1", "routeconfiguration +r@1"}, e.drained())
	e.s.receive(e.now, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: RouteType, ResourceNamesSubscribe: []string{"other"}})
	e.turn()
	require.True(t, e.s.once)
	e.drained()
	e.publish(pub("v2", []string{"a@1"}, []string{"l@1"}, []string{"r@2", "other@1"}))
	require.Equal(t, []string{"routeconfiguration +r@2"}, e.drained())
	e.s.receive(e.now, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: RouteType, ResourceNamesSubscribe: []string{"r"}})
	e.turn()
	require.Equal(t, []string{"routeconfiguration +r@2"}, e.drained(), "a renewed subscription is answered")
}

func TestAStaleNonceChangesNothing(t *testing.T) {
	e := newEnvoy(t)
	e.publish(pub("v1", []string{"a@1"}, nil, nil))
	e.connect()
	e.drained()
	e.s.receive(e.now, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: "99", ErrorDetail: &rpcstatus.Status{Message: "old"}})
	e.turn()
	require.Empty(t, e.drained())
	require.Empty(t, e.s.rejections())
}

func TestAnUnknownTypeIsIgnored(t *testing.T) {
	e := newEnvoy(t)
	e.s.receive(e.now, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"})
	e.publish(pub("v1", nil, nil, nil))
	require.Empty(t, e.drained())
}

// behaviour E9: the end of Envoy's words, at most 1,000 characters.
func TestOnlyTheEndOfALongRejectionIsKept(t *testing.T) {
	words := strings.Repeat("é", 5000) + "the reason"
	got := tail(words)
	require.LessOrEqual(t, len(got), maxWords)
	require.True(t, strings.HasSuffix(got, "the reason"))
	require.Equal(t, got, strings.ToValidUTF8(got, "?"))
	require.Equal(t, "short", tail("short"))
}

// The property behind all of it: whatever is published and rejected, Envoy ends
// with the newest acceptable version of everything, and the session at rest.
func TestWhateverHappensEnvoyEndsWithTheTarget(t *testing.T) {
	for seed := range 200 {
		r := newRandom(uint64(seed))
		e := newEnvoy(t).connect()
		for range 30 {
			e.publish(r.goal())
			if r.n(4) == 0 {
				e.rejects[fmt.Sprintf("%s@%d", r.name(), r.n(3))] = true
			}
			e.pass(time.Duration(r.n(700)) * time.Second)
		}
		e.rejects = map[string]bool{}
		e.pass(10 * time.Minute)
		e.pass(20 * time.Minute)
		for typ, want := range e.target.byType {
			if typ == RouteType {
				continue
			}
			for name, res := range want {
				require.Equal(t, res.Version, e.holds[typ][name], "seed %d: %s", seed, name)
			}
			require.Len(t, e.holds[typ], len(want), "seed %d: %v", seed, slices.Sorted(maps.Keys(e.holds[typ])))
		}
		require.Equal(t, e.target.version, e.s.accepted)
	}
}
