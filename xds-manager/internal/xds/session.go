package xds

import (
	"maps"
	"slices"
	"strconv"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/densityops/oooi/xds-manager/internal/translate"
)

// The resource types that are served, in the order in which they are sent.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

const (
	firstRetry = 10 * time.Second
	lastRetry  = 5 * time.Minute
	// maxWords bounds what is kept of a rejection: Envoy may quote the whole
	// listener, and what went wrong stands at the end.
	maxWords = 1000
	// unknown stands for a version that Envoy may or may not have taken.
	unknown = "?"
)

// Publication is one complete configuration.
type Publication struct {
	// Version is the snapshot's that it was made from.
	Version   string
	Resources translate.Resources
}

// Rejection is a resource that Envoy refused, in Envoy's words.
type Rejection struct {
	Type    string
	Name    string
	Message string
}

// goal is a publication in the form that a session compares with.
type goal struct {
	version string
	byType  map[string]map[string]translate.Resource
}

func newGoal(p *Publication) *goal {
	if p == nil {
		return nil
	}
	g := &goal{version: p.Version, byType: map[string]map[string]translate.Resource{}}
	for typ, list := range map[string][]translate.Resource{
		ClusterType: p.Resources.Clusters, ListenerType: p.Resources.Listeners, RouteType: p.Resources.Routes,
	} {
		m := make(map[string]translate.Resource, len(list))
		for _, r := range list {
			m[r.Name] = r
		}
		g.byType[typ] = m
	}
	return g
}

func (g *goal) of(typ string) map[string]translate.Resource {
	if g == nil {
		return nil
	}
	return g.byType[typ]
}

// session is what one stream knows of its Envoy.
type session struct {
	drain  time.Duration
	kinds  map[string]*kind
	nonces int
	// prune holds when a cluster that nothing needs any more may go.
	prune map[string]time.Time
	// synced says that the newest publication is in force, as a whole or but
	// for rejections; once says that this was so without a rejection.
	synced   bool
	once     bool
	accepted string
	// acks and nacks count since the session began, by type.
	acks, nacks map[string]int
}

// kind is the state of one resource type.
type kind struct {
	typ        string
	subscribed bool
	answered   bool
	wildcard   bool
	names      map[string]bool
	// has is what Envoy holds, by name and version.
	has   map[string]string
	nonce string
	sent  map[string]string
	// limit is how many resources go into one response, 0 = all. It halves
	// with a rejected response and doubles with an accepted one, so that the
	// culprit is found in a few steps and the others are in force.
	limit    int
	rejected map[string]*rejection
}

type rejection struct {
	version string
	message string
	pause   time.Duration
	until   time.Time
}

func newSession(drain time.Duration) *session {
	s := &session{drain: drain, kinds: map[string]*kind{}, prune: map[string]time.Time{}, acks: map[string]int{}, nacks: map[string]int{}}
	for _, t := range []string{ClusterType, ListenerType, RouteType} {
		s.kinds[t] = &kind{typ: t, names: map[string]bool{}, has: map[string]string{}, rejected: map[string]*rejection{}}
	}
	// A listener travels alone: a rejected one then never takes others along.
	s.kinds[ListenerType].limit = 1
	return s
}

// receive takes a request: a subscription, an acknowledgement, a rejection, or
// several of these at once. Types that are not ours are ignored.
func (s *session) receive(now time.Time, r *discoveryv3.DeltaDiscoveryRequest) {
	k := s.kinds[r.TypeUrl]
	if k == nil {
		return
	}
	if !k.subscribed {
		k.subscribed = true
		maps.Copy(k.has, r.InitialResourceVersions)
		k.wildcard = len(r.ResourceNamesSubscribe) == 0
	}
	for _, n := range r.ResourceNamesSubscribe {
		if n == "*" {
			k.wildcard = true
			continue
		}
		k.names[n] = true
		if r.InitialResourceVersions[n] == "" {
			// A new subscription to a name wants an answer, whatever was sent.
			delete(k.has, n)
		}
	}
	for _, n := range r.ResourceNamesUnsubscribe {
		delete(k.names, n)
		delete(k.has, n)
	}
	if k.nonce == "" || r.ResponseNonce != k.nonce {
		return
	}
	if r.ErrorDetail == nil {
		s.acks[k.typ]++
		k.acknowledge()
		return
	}
	s.nacks[k.typ]++
	k.reject(now, tail(r.ErrorDetail.GetMessage()))
}

func tail(words string) string {
	if len(words) <= maxWords {
		return words
	}
	cut := words[len(words)-maxWords:]
	for len(cut) > 0 && cut[0]&0xC0 == 0x80 {
		cut = cut[1:]
	}
	return cut
}

func (k *kind) acknowledge() {
	for name, version := range k.sent {
		if r := k.rejected[name]; r != nil && r.version == version {
			delete(k.rejected, name)
		}
		if version == "" {
			delete(k.has, name)
		} else {
			k.has[name] = version
		}
	}
	k.nonce, k.sent = "", nil
	if k.typ == ClusterType && k.limit > 0 {
		k.limit *= 2
	}
}

func (k *kind) reject(now time.Time, words string) {
	if len(k.sent) > 1 {
		// Envoy took some of them and does not say which.
		k.limit = max(1, len(k.sent)/2)
		for name := range k.sent {
			k.has[name] = unknown
		}
	} else {
		for name, version := range k.sent {
			k.blame(now, name, version, words)
		}
	}
	k.nonce, k.sent = "", nil
}

func (k *kind) blame(now time.Time, name, version, words string) {
	r := k.rejected[name]
	if r == nil || r.version != version {
		r = &rejection{version: version, pause: firstRetry / 2}
		k.rejected[name] = r
	}
	r.message = words
	r.pause = min(2*r.pause, lastRetry)
	r.until = now.Add(r.pause)
}

// step answers with what is to be sent now. Caller must send all of it.
func (s *session) step(now time.Time, target, good *goal) []*discoveryv3.DeltaDiscoveryResponse {
	if target == nil {
		return nil
	}
	s.forgetRejections(target)
	var out []*discoveryv3.DeltaDiscoveryResponse
	clusters, listeners, routes := s.kinds[ClusterType], s.kinds[ListenerType], s.kinds[RouteType]
	want := s.desired(now, target, good)
	for _, k := range []*kind{clusters, listeners, routes} {
		if k != clusters && !clusters.settled(want[ClusterType]) {
			break
		}
		if r := s.respond(k, want[k.typ]); r != nil {
			out = append(out, r)
		}
	}
	s.synced = clusters.settled(want[ClusterType]) && listeners.settled(want[ListenerType]) &&
		len(listeners.surplus(want[ListenerType])) == 0 && routesInForce(routes, want[RouteType])
	if s.synced && !s.anyRejected() {
		s.once, s.accepted = true, target.version
		if r := s.pruneClusters(now, want[ClusterType]); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// routesInForce says that every route configuration was asked for and is there:
// Envoy asks for it when it takes the listener that names it.
func routesInForce(k *kind, want map[string]translate.Resource) bool {
	for name, r := range want {
		if k.has[name] != r.Version {
			return false
		}
	}
	return len(want) == 0 || k.settled(want)
}

// forgetRejections drops rejections of what is no longer wanted.
func (s *session) forgetRejections(target *goal) {
	for typ, k := range s.kinds {
		for name, r := range k.rejected {
			if t, ok := target.of(typ)[name]; !ok || t.Version != r.version {
				delete(k.rejected, name)
			}
		}
	}
}

func (s *session) anyRejected() bool {
	for _, k := range s.kinds {
		if len(k.rejected) > 0 {
			return true
		}
	}
	return false
}

// desired is what Envoy should hold: the target, but the last good version of
// what it rejected, until the pause is over.
func (s *session) desired(now time.Time, target, good *goal) map[string]map[string]translate.Resource {
	out := map[string]map[string]translate.Resource{}
	for typ, k := range s.kinds {
		out[typ] = target.of(typ)
		if len(k.rejected) == 0 {
			continue
		}
		m := maps.Clone(target.of(typ))
		for name, r := range k.rejected {
			if !now.Before(r.until) {
				continue
			}
			delete(m, name)
			if g, ok := good.of(typ)[name]; ok && g.Version != r.version {
				m[name] = g
			} else if v, ok := k.has[name]; ok && v != unknown {
				m[name] = translate.Resource{Name: name, Version: v}
			}
		}
		out[typ] = m
	}
	if len(s.kinds[ListenerType].rejected) > 0 && good != nil {
		// The listeners that stay need the clusters that they were made with.
		m := maps.Clone(good.of(ClusterType))
		maps.Copy(m, out[ClusterType])
		out[ClusterType] = m
	}
	return out
}

// settled says that nothing is on its way and nothing is left to send.
func (k *kind) settled(want map[string]translate.Resource) bool {
	return k.subscribed && k.answered && k.nonce == "" && len(k.missing(want)) == 0
}

// missing are the names whose wanted version Envoy does not hold, sorted.
func (k *kind) missing(want map[string]translate.Resource) []string {
	var out []string
	for name, r := range want {
		if (k.wildcard || k.names[name]) && k.has[name] != r.Version {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// surplus are the names that Envoy holds and should not, sorted.
func (k *kind) surplus(want map[string]translate.Resource) []string {
	var out []string
	for name := range k.has {
		if _, ok := want[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (s *session) respond(k *kind, want map[string]translate.Resource) *discoveryv3.DeltaDiscoveryResponse {
	if !k.subscribed || k.nonce != "" {
		return nil
	}
	names := k.missing(want)
	if gone := k.surplus(want); len(names) == 0 && len(gone) > 0 && k.typ != ClusterType {
		return s.send(k, nil, gone)
	}
	if k.limit > 0 && len(names) > k.limit {
		names = names[:k.limit]
	}
	if len(names) == 0 && k.answered {
		return nil
	}
	resources := make([]translate.Resource, len(names))
	for i, n := range names {
		resources[i] = want[n]
	}
	return s.send(k, resources, nil)
}

func (s *session) send(k *kind, resources []translate.Resource, removed []string) *discoveryv3.DeltaDiscoveryResponse {
	s.nonces++
	k.answered = true
	k.nonce = strconv.Itoa(s.nonces)
	k.sent = make(map[string]string, len(resources)+len(removed))
	r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: k.typ, Nonce: k.nonce, RemovedResources: removed}
	for _, res := range resources {
		k.sent[res.Name] = res.Version
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: res.Name, Version: res.Version, Resource: res.Body})
	}
	for _, name := range removed {
		k.sent[name] = ""
	}
	return r
}

// pruneClusters removes clusters one drain time after the last listener that
// could lead to them.
func (s *session) pruneClusters(now time.Time, want map[string]translate.Resource) *discoveryv3.DeltaDiscoveryResponse {
	k := s.kinds[ClusterType]
	var due []string
	for _, name := range k.surplus(want) {
		at, ok := s.prune[name]
		switch {
		case !ok:
			s.prune[name] = now.Add(s.drain)
		case !now.Before(at):
			due = append(due, name)
		}
	}
	maps.DeleteFunc(s.prune, func(name string, _ time.Time) bool {
		_, wanted := want[name]
		_, held := k.has[name]
		return wanted || !held
	})
	if len(due) == 0 || k.nonce != "" {
		return nil
	}
	return s.send(k, nil, due)
}

// wake is when step may have something new to say without anybody's doing. A
// time that went by is not named: step has acted on it, or waits for Envoy.
func (s *session) wake(now time.Time) (time.Time, bool) {
	var at time.Time
	earlier := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, t := range s.prune {
		earlier(t)
	}
	for _, k := range s.kinds {
		for _, r := range k.rejected {
			earlier(r.until)
		}
	}
	return at, !at.IsZero()
}

// rejections lists what Envoy refused, sorted by type and name.
func (s *session) rejections() []Rejection {
	var out []Rejection
	for _, typ := range []string{ClusterType, ListenerType, RouteType} {
		k := s.kinds[typ]
		for _, name := range slices.Sorted(maps.Keys(k.rejected)) {
			out = append(out, Rejection{Type: typ, Name: name, Message: k.rejected[name].message})
		}
	}
	return out
}
