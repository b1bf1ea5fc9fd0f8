package ingress

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/apps"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/plan"
)

// patience is what one hosted cluster may take of a worker's time in one pass:
// its answers are its tenant's. The management cluster's are not, and waiting for
// its API server must not look like a fault of the hosted one.
const patience = 30 * time.Second

// maxHostname is the API's limit of what a hosted cluster may put into a status.
const maxHostname = 253

// How soon to go on after something was removed, where nobody answers, and where
// nobody was asked.
const (
	recheckRemoved  = 2 * time.Second
	recheckAway     = 15 * time.Second
	recheckNotAsked = 5 * time.Second
)

// Step is the sub-step of the attachment controller.
type Step struct {
	clients *hosted.Clients
	// hub reads single objects from the management cluster's API server.
	hub   client.Reader
	clock func() time.Time
	aside func(types.NamespacedName, func() time.Duration) bool

	mu       sync.Mutex
	appliers map[hosted.Target]applier // guarded by mu
}

type applier struct {
	client  client.Client
	applier *apply.Applier
}

// New makes a Step.
func New(clients *hosted.Clients, hub client.Reader, clock func() time.Time) *Step {
	return &Step{clients: clients, hub: hub, clock: clock, aside: always, appliers: map[hosted.Target]applier{}}
}

func always(_ types.NamespacedName, f func() time.Duration) bool {
	f()
	return true
}

// Aside makes the Step do by what it is given here whatever is sent to the hosted
// cluster of an attachment: it may take long although it is nobody's turn, and gives
// for how long the hosted cluster has let us wait. What answers false has done nothing,
// and the Step comes again soon. It returns s. To be called before Ensure.
func (s *Step) Aside(aside func(types.NamespacedName, func() time.Duration) bool) *Step {
	s.aside = aside
	return s
}

// Ensure brings the hosted cluster one step on, records
// a.Status.AppsIngressStatus, and gives when to come again. The error carries
// the reason of a phase that is not Ready.
func (s *Step) Ensure(ctx context.Context, a *v1alpha1.InfraClusterAttachment, f facts.Attachment, infras []v1alpha1.Infra) (time.Duration, error) {
	w, err := wanted(a)
	w.Refusal = refusal(a, w, infras)
	if err != nil {
		w.Refusal = plan.Reason{Reason: v1alpha1.ReasonInvalidConfiguration, Message: "appsIngress.metallb.ipAddressPoolRange: " + err.Error()}
	}
	applied, d := w.Applied, apps.Judge(w, apps.Observed{})
	in := facts.HostedCluster(a, f.ControlPlaneNamespace, f.Observed)
	t, known := target(a.Namespace, in)
	if w.Refusal.Reason == "" && !known {
		d = apps.Judge(w, apps.Observed{AccessProblem: unknown})
	}
	if w.Refusal.Reason == "" && known {
		unasked := d
		if !s.ask(a, t, func(work *hosted.Work) {
			s.enter(a, in)
			applied, d = s.advance(ctx, work, w, t)
		}) {
			w.Applied = applied
			return s.asBefore(a, w, unasked)
		}
	}
	d.Message, d.After = outcome.Message(d.Message), spread(d.After)
	if len(d.Endpoint.Hostname) > maxHostname {
		d.Endpoint.Hostname = ""
	}
	s.report(a, d, applied)
	if d.Phase == v1alpha1.AppsPhaseReady {
		return d.After, nil
	}
	return 0, outcome.Waiting{Reason: d.Reason, Message: d.Message, After: d.After}
}

// unknown is said of a hosted cluster without a Service of its API server.
const unknown = "the API server's Service of the hosted cluster is not known"

// ask does what is sent to a hosted cluster, and says whether it was asked: there are
// bounds of ours, which are no fault of it.
func (s *Step) ask(a *v1alpha1.InfraClusterAttachment, t hosted.Target, f func(*hosted.Work)) (asked bool) {
	s.aside(client.ObjectKeyFromObject(a), func() time.Duration {
		work := s.clients.Begin(t)
		if work == nil {
			return 0
		}
		defer work.End()
		f(work)
		asked = !work.Crowded()
		return work.Waited()
	})
	return asked
}

// enter records which hosted cluster is written to, before that is done.
func (s *Step) enter(a *v1alpha1.InfraClusterAttachment, in v1alpha1.AppliedIn) {
	before, _ := target(a.Namespace, facts.AppliedIn(a))
	if now, _ := target(a.Namespace, in); now != before {
		s.forget(before)
	}
	if a.Status.AppsIngressStatus == nil {
		a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{}
	}
	a.Status.AppsIngressStatus.AppliedIn = in
}

// asBefore leaves everything as it is known of a hosted cluster that was not asked.
// What is known of another generation is not known of this one.
func (s *Step) asBefore(a *v1alpha1.InfraClusterAttachment, w apps.Wanted, d apps.Decision) (time.Duration, error) {
	if st := a.Status.AppsIngressStatus; st == nil || st.Phase == "" || a.Status.ObservedGeneration != a.Generation {
		d.Message = hosted.NotAskedYet
		s.report(a, d, w.Applied)
	}
	a.Status.AppsIngressStatus.Applied = w.Applied
	st, after := a.Status.AppsIngressStatus, spread(recheckNotAsked)
	if st.Phase == v1alpha1.AppsPhaseReady {
		return after, nil
	}
	return 0, outcome.Waiting{Reason: st.Reason, Message: st.Message, After: after}
}

// spread takes up to a fifth off, so that not all hosted clusters are asked at one
// moment after a start.
func spread(after time.Duration) time.Duration { return after - rand.N(after/5+1) }

// advance reads the hosted cluster and carries out what follows.
func (s *Step) advance(ctx context.Context, work *hosted.Work, w apps.Wanted, t hosted.Target) ([]v1alpha1.AppliedObject, apps.Decision) {
	unreachable := func(err error) ([]v1alpha1.AppliedObject, apps.Decision) {
		_, message := outcome.Describe(err)
		return w.Applied, apps.Judge(w, apps.Observed{AccessProblem: message})
	}
	hostedClient, err := s.clients.For(ctx, t)
	if err != nil {
		return unreachable(err)
	}
	mirrors, err := s.mirrors(ctx, t.Namespace, w)
	if err != nil {
		return unreachable(err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen := observer{hostedClient, w, s.clock()}.observe(ctx)
	seen.HubMirrors = mirrors
	if work.Crowded() {
		return w.Applied, apps.Decision{}
	}
	if seen.AccessProblem != "" {
		s.clients.Forget(t)
	}
	// What cannot be recorded now is before it is removed.
	w.Applied, _ = recordInstalled(ctx, hostedClient, w.Applied, unrecorded(w.Applied, seen))
	return s.carryOut(ctx, s.applier(t, hostedClient), w, apps.Judge(w, seen))
}

// refusal says why nothing may be written: the Infra has not recorded the range
// and the ports as this attachment's (behaviour F5).
func refusal(a *v1alpha1.InfraClusterAttachment, w apps.Wanted, infras []v1alpha1.Infra) plan.Reason {
	for _, i := range infras {
		for _, r := range i.Status.InForce {
			if string(r.Attachment) == a.Name && string(r.Range) == w.Pool.String() && r.HTTPPort == w.Spec.Ports.HTTP && r.HTTPSPort == w.Spec.Ports.HTTPS {
				return plan.Reason{}
			}
		}
	}
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionProgrammed)
	if c != nil && c.ObservedGeneration == a.Generation && c.Status != metav1.ConditionTrue {
		return plan.Reason{Reason: c.Reason, Message: c.Message}
	}
	return plan.Reason{Reason: v1alpha1.ReasonWaitingForInfra, Message: "the Infra has not recorded the range and the ports yet"}
}

// target is the API server of a hosted cluster.
func target(tenant string, in v1alpha1.AppliedIn) (hosted.Target, bool) {
	return hosted.Target{Tenant: tenant, Namespace: string(in.ControlPlaneNamespace), Service: in.Service, Port: uint16(in.Port)}, in.Service != ""
}

// carryOut removes, and where there was nothing to remove writes.
func (s *Step) carryOut(ctx context.Context, to applier, w apps.Wanted, d apps.Decision) ([]v1alpha1.AppliedObject, apps.Decision) {
	applied := w.Applied
	for _, o := range d.Remove {
		if err := remove(ctx, to.client, o); err != nil {
			return applied, d.Refused(o.Kind, hosted.Plain(err), w.Last)
		}
		applied = slices.DeleteFunc(slices.Clone(applied), func(r v1alpha1.AppliedObject) bool { return r == o })
	}
	if len(d.Remove) > 0 {
		d.After = recheckRemoved
		return applied, d
	}
	for _, o := range d.Apply {
		identity, err := put(ctx, to, w, o)
		if err != nil {
			return applied, d.Refused(o.Kind(), hosted.Plain(err), w.Last)
		}
		applied = record(applied, identity)
	}
	return applied, d
}

// Remove removes everything that is recorded from where it was made, in the order that leaves no
// object without its controller. The error says what is still there, or that the
// hosted cluster was not asked; what a.Status records by then is to be written.
func (s *Step) Remove(ctx context.Context, a *v1alpha1.InfraClusterAttachment) error {
	// An unreadable range removes as well as a readable one.
	w, _ := wanted(a)
	if len(w.Applied) == 0 {
		return nil
	}
	t, ok := target(a.Namespace, facts.AppliedIn(a))
	if !ok {
		return outcome.Waiting{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: unknown, After: recheckAway}
	}
	var err error
	if !s.ask(a, t, func(work *hosted.Work) { err = s.removeFrom(ctx, work, t, w, a) }) {
		return hosted.ErrNotAsked
	}
	return err
}

// removeFrom removes from a hosted cluster what is recorded.
func (s *Step) removeFrom(ctx context.Context, work *hosted.Work, t hosted.Target, w apps.Wanted, a *v1alpha1.InfraClusterAttachment) error {
	hostedClient, err := s.clients.For(ctx, t)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen := observer{hostedClient, w, s.clock()}.observe(ctx)
	if work.Crowded() {
		return hosted.ErrNotAsked
	}
	if seen.AccessProblem != "" {
		s.clients.Forget(t)
		return outcome.Waiting{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: seen.AccessProblem, After: recheckAway}
	}
	applied, err := recordInstalled(ctx, hostedClient, w.Applied, apps.Installed(seen))
	if err != nil {
		return outcome.Failed{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "looking for what OLM has installed", Err: hosted.Plain(err)}
	}
	if !slices.Equal(applied, w.Applied) {
		// To be written first: the next pass removes it.
		a.Status.AppsIngressStatus.Applied = applied
		return fmt.Errorf("recording what OLM has installed: %w", hosted.ErrNotAsked)
	}
	for _, o := range apps.Remove(w, seen) {
		if err := remove(ctx, hostedClient, o); err != nil {
			return outcome.Failed{
				Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: fmt.Sprintf("removing %s %s/%s", o.Kind, o.Namespace, o.Name), Err: hosted.Plain(err),
			}
		}
	}
	return nil
}

// Drop forgets how the hosted cluster of an attachment is reached that has nothing in it
// any more, or is gone.
func (s *Step) Drop(a *v1alpha1.InfraClusterAttachment) {
	if t, known := target(a.Namespace, facts.AppliedIn(a)); known {
		s.forget(t)
	}
}

func (s *Step) applier(t hosted.Target, c client.Client) applier {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.appliers[t]; ok && known.client == c {
		return known
	}
	made := applier{c, apply.New(c, c)}
	s.appliers[t] = made
	return made
}

func (s *Step) forget(t hosted.Target) {
	s.clients.Forget(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.appliers, t)
}

// report writes the decision to the status; lastSync is when the endpoint has
// changed, so that a quiet world writes nothing.
func (s *Step) report(a *v1alpha1.InfraClusterAttachment, d apps.Decision, applied []v1alpha1.AppliedObject) {
	before := a.Status.AppsIngressStatus
	if before == nil {
		before = &v1alpha1.AppsIngressStatus{}
	}
	after := &v1alpha1.AppsIngressStatus{
		Phase: d.Phase, Reason: d.Reason, Message: d.Message, ExternalHostname: d.Endpoint.Hostname, LastSync: before.LastSync, Applied: applied,
		AppliedIn: before.AppliedIn,
	}
	if d.Endpoint.IP.IsValid() {
		after.ExternalIP = v1alpha1.IPv4(d.Endpoint.IP.String())
	}
	if after.ExternalIP != before.ExternalIP || after.ExternalHostname != before.ExternalHostname {
		now := metav1.NewTime(s.clock())
		after.LastSync = &now
	}
	a.Status.AppsIngressStatus = after
}

// wanted fills in the defaults that the API server gives.
func wanted(a *v1alpha1.InfraClusterAttachment) (apps.Wanted, error) {
	w := apps.Wanted{UID: string(a.UID), Spec: a.Spec.AppsIngress}
	http, https := plan.AppsPorts(w.Spec.Ports)
	w.Spec.Ports = v1alpha1.AppsPorts{HTTP: v1alpha1.Port(http), HTTPS: v1alpha1.Port(https)}
	orDefault(&w.Spec.Service.Name, "oooi-ingress")
	orDefault(&w.Spec.Service.Namespace, "openshift-ingress")
	orDefault(&w.Spec.MetalLB.Operator.Source, "redhat-operators")
	orDefault(&w.Spec.MetalLB.Operator.SourceNamespace, "openshift-marketplace")
	orDefault(&w.Spec.MetalLB.Operator.Channel, "stable")
	orDefault(&w.Spec.MetalLB.Operator.Package, "metallb-operator")
	if st := a.Status.AppsIngressStatus; st != nil {
		w.Applied = slices.Clone(st.Applied)
		w.Last.Hostname = st.ExternalHostname
		if ip, err := netip.ParseAddr(string(st.ExternalIP)); err == nil {
			w.Last.IP = ip
		}
	}
	var err error
	w.Pool, err = plan.ParseRange(string(a.Spec.AppsIngress.MetalLB.IPAddressPoolRange))
	return w, err
}

func orDefault[S ~string](s *S, value S) {
	if *s == "" {
		*s = value
	}
}

// put applies one object and gives its identity.
func put(ctx context.Context, to applier, w apps.Wanted, o apps.Object) (v1alpha1.AppliedObject, error) {
	u := &unstructured.Unstructured{Object: o}
	err := to.applier.Set(ctx, apply.Set{
		Identity: map[string]string{apps.LabelManagedBy: apps.ManagedBy, apps.LabelAttachmentUID: w.UID},
		Objects:  []client.Object{u},
	})
	if err != nil {
		return v1alpha1.AppliedObject{}, err
	}
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(u.GroupVersionKind())
	if err := to.client.Get(ctx, client.ObjectKeyFromObject(u), m); err != nil {
		return v1alpha1.AppliedObject{}, err
	}
	return v1alpha1.AppliedObject{
		APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: m.Namespace, Name: m.Name, UID: string(m.UID),
	}, nil
}

// record keeps one entry for each object.
func record(applied []v1alpha1.AppliedObject, o v1alpha1.AppliedObject) []v1alpha1.AppliedObject {
	applied = slices.Clone(applied)
	for i, r := range applied {
		if r.Kind == o.Kind && r.Namespace == o.Namespace && r.Name == o.Name {
			applied[i] = o
			return applied
		}
	}
	return append(applied, o)
}

// remove removes an object if it is still the one that was recorded.
func remove(ctx context.Context, c client.Client, o v1alpha1.AppliedObject) error {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(o.APIVersion)
	u.SetKind(o.Kind)
	u.SetNamespace(o.Namespace)
	u.SetName(o.Name)
	opts := []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationBackground)}
	if o.UID != "" {
		uid := types.UID(o.UID)
		opts = append(opts, client.Preconditions{UID: &uid})
	}
	err := c.Delete(ctx, u, opts...)
	if err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		// Another object of that name: not ours to remove.
		return nil
	}
	return err
}
