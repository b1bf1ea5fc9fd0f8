package attachment_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/attachment"
	"github.com/densityops/oooi/operator/internal/controller/coalesce"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/policy"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/lead"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// unreachable is a hosted cluster whose calls take some time and end in nothing.
type unreachable struct {
	tries int
	drops int
	takes time.Duration
	err   error
	now   *time.Time
}

func (u *unreachable) Ensure(context.Context, *v1alpha1.InfraClusterAttachment, facts.Attachment, []v1alpha1.Infra) (time.Duration, error) {
	return 0, errors.New("not asked here")
}

func (u *unreachable) Remove(context.Context, *v1alpha1.InfraClusterAttachment) error {
	u.tries++
	*u.now = u.now.Add(u.takes)
	return outcome.Failed{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "reaching the hosted cluster", Err: u.err}
}

func (u *unreachable) Drop(*v1alpha1.InfraClusterAttachment) { u.drops++ }

// everything is served.
type everything struct{}

func (everything) Served(k kinds.Kind) (schema.GroupVersionKind, bool) {
	return schema.GroupVersionKind{Group: k.Group, Version: "v1beta1", Kind: k.Name}, k.Group == "hypershift.openshift.io"
}

func (everything) Known(context.Context) error { return nil }

// deletion is an attachment that is being deleted, with what it has made.
type deletion struct {
	client.Client
	attachment *v1alpha1.InfraClusterAttachment
	policy     *networkingv1.NetworkPolicy
	apps       *unreachable
	now        time.Time
	away       time.Duration
	controller *attachment.Controller
}

func newDeletion(t *testing.T, cluster bool, takes time.Duration) *deletion {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, hyperv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	d := &deletion{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	d.apps = &unreachable{takes: takes, now: &d.now, err: errors.New("context deadline exceeded")}
	a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "clusters", Name: "a", UID: "u", Finalizers: []string{attachment.Finalizer}, DeletionTimestamp: &metav1.Time{Time: d.now},
	}}
	a.Spec.HostedClusterRef = v1alpha1.HostedClusterRef{Namespace: "clusters", Name: "a"}
	a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{
		Applied:   []v1alpha1.AppliedObject{{APIVersion: "v1", Kind: "Service", Name: "oooi-ingress"}},
		AppliedIn: v1alpha1.AppliedIn{Namespace: "clusters", Name: "a", UID: "hc", ControlPlaneNamespace: "clusters-a", Service: "kube-apiserver", Port: 6443},
	}
	d.attachment = a
	d.policy = &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters-a", Name: "allow-infrastructure", Labels: map[string]string{
		"app.kubernetes.io/managed-by": "oooi-operator", "app.kubernetes.io/component": "control-plane",
	}}}
	objects := []client.Object{a, d.policy}
	if cluster {
		objects = append(objects, &hyperv1.HostedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "a", UID: "hc"}})
	}
	d.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(a).
		WithIndex(a, world.IndexControlPlane, func(o client.Object) []string {
			return []string{facts.ControlPlaneOf(o.(*v1alpha1.InfraClusterAttachment))}
		}).Build()
	d.start()
	return d
}

// start is a new process: it knows nothing of what another one has counted.
func (d *deletion) start() {
	clock := func() time.Time { return d.now }
	applier, reader := apply.New(d, d), world.New(d, everything{}, world.NewHubNetworks(d, clock), world.NewBoard(clock))
	d.controller = &attachment.Controller{
		Client: d, Applier: applier, World: reader, Policies: &policy.Policies{Applier: applier, World: reader}, Apps: d.apps,
		Gatherer: coalesce.New(clock), Clock: clock, Away: func() time.Duration { return d.away },
	}
}

// try reconciles once, and lets the time go by after which it is to be tried again.
func (d *deletion) try(t *testing.T) (released bool) {
	t.Helper()
	a := &v1alpha1.InfraClusterAttachment{}
	require.NoError(t, d.Get(t.Context(), client.ObjectKeyFromObject(d.attachment), a))
	res, err := d.controller.Reconcile(t.Context(), a)
	require.NoError(t, err)
	// What the management cluster holds is taken back in any case.
	require.True(t, apierrors.IsNotFound(d.Get(t.Context(), client.ObjectKeyFromObject(d.policy), &networkingv1.NetworkPolicy{})))
	err = d.Get(t.Context(), client.ObjectKeyFromObject(a), a)
	if apierrors.IsNotFound(err) {
		return true
	}
	require.NoError(t, err)
	cond := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionDegraded)
	require.NotNil(t, cond, "the deletion says what holds it up")
	require.Equal(t, v1alpha1.ReasonHostedClusterAccessFailed, cond.Reason)
	require.Positive(t, res.RequeueAfter)
	require.LessOrEqual(t, res.RequeueAfter, 15*time.Second)
	d.now = d.now.Add(res.RequeueAfter)
	return false
}

// behaviour B6, case C45 (b): a hosted cluster that hangs holds up a deletion for
// at most ten minutes, one that refuses for less than two, and the attachment says
// so; one that is gone does not hold it up at all. Only the time counts in which it
// could have answered.
func TestAnUnreachableHostedClusterIsGivenUp(t *testing.T) {
	const hangs, refuses = 10 * time.Second, time.Millisecond
	for _, c := range []struct {
		name    string
		cluster bool
		takes   time.Duration
		// happen, after the third try.
		happen          func(*deletion)
		earliest, until time.Duration
	}{
		{"it hangs", true, hangs, nil, 9 * time.Minute, 10*time.Minute + 25*time.Second},
		{"it refuses", true, refuses, nil, time.Minute, 90 * time.Second},
		{"the HostedCluster is gone", false, refuses, nil, 0, time.Second},
		{"the management cluster is away for an hour", true, hangs, func(d *deletion) {
			d.now, d.away = d.now.Add(time.Hour), d.away+time.Hour
		}, 69 * time.Minute, 70*time.Minute + 25*time.Second},
		{"the operator is down for an hour", true, hangs, func(d *deletion) {
			d.now = d.now.Add(time.Hour)
			d.start()
		}, 69 * time.Minute, 72 * time.Minute},
		{"the operator is down for an hour, and then it refuses", true, refuses, func(d *deletion) {
			d.now = d.now.Add(time.Hour)
			d.start()
		}, 61 * time.Minute, 63 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDeletion(t, c.cluster, c.takes)
			began := d.now
			for !d.try(t) {
				if d.apps.tries == 3 && c.happen != nil {
					c.happen(d)
				}
				require.Less(t, d.now.Sub(began), 2*time.Hour)
				require.Zero(t, d.apps.drops)
			}
			require.Equal(t, 1, d.apps.drops, "behaviour B10: how it is reached is forgotten, also where it was given up")
			require.GreaterOrEqual(t, d.now.Sub(began), c.earliest)
			require.LessOrEqual(t, d.now.Sub(began), c.until)
		})
	}
}

// behaviour B6: that the management cluster cannot be read, or that this replica may
// not write now, is no fault of the hosted cluster: it is not given up for that.
func TestAFaultOfTheManagementClusterGivesUpNoHostedCluster(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{
		{"its kubeconfig cannot be read", fmt.Errorf("%w: %w", hosted.ErrManagement, errors.New("forbidden"))},
		{"this replica may not write", fmt.Errorf("patching: %w", lead.ErrUnsure)},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDeletion(t, true, time.Millisecond)
			hangs := d.apps.err
			d.apps.err = c.err
			for range 100 {
				require.False(t, d.try(t))
			}
			d.apps.err = hangs
			began := d.now
			for !d.try(t) {
				require.Less(t, d.now.Sub(began), time.Hour)
			}
			require.GreaterOrEqual(t, d.now.Sub(began), time.Minute, "it is counted from here on")
		})
	}
}

// behaviours B6, F0, G5: an attachment whose admission was withdrawn, or that names
// another hosted cluster by now, takes its objects back from the one that they were made
// in; one that has the place of that is not asked.
func TestWhatWasMadeIsTakenBackFromWhereItIs(t *testing.T) {
	wrongNamespace := func(a *v1alpha1.InfraClusterAttachment, _ *hyperv1.HostedCluster) {
		a.Spec.ControlPlaneNamespace, a.Status.ControlPlaneNamespace = "clusters-b", "clusters-b"
	}
	wrongName := func(a *v1alpha1.InfraClusterAttachment, _ *hyperv1.HostedCluster) { a.Spec.HostedClusterRef.Name = "b" }
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.InfraClusterAttachment, *hyperv1.HostedCluster)
		tries  int
		waits  bool
	}{
		{"its control-plane namespace is mistyped", wrongNamespace, 1, true},
		{"its HostedCluster is mistyped", wrongName, 1, true},
		{"it is nobody's that is known", func(a *v1alpha1.InfraClusterAttachment, _ *hyperv1.HostedCluster) {
			a.Status.AppsIngressStatus.AppliedIn = v1alpha1.AppliedIn{}
		}, 1, true},
		{"another one has its name", func(_ *v1alpha1.InfraClusterAttachment, hc *hyperv1.HostedCluster) { hc.UID = "another" }, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDeletion(t, true, time.Millisecond)
			hc, a := &hyperv1.HostedCluster{}, &v1alpha1.InfraClusterAttachment{}
			require.NoError(t, d.Get(t.Context(), client.ObjectKey{Namespace: "clusters", Name: "a"}, hc))
			require.NoError(t, d.Get(t.Context(), client.ObjectKeyFromObject(d.attachment), a))
			tt.change(a, hc)
			st := a.Status
			require.NoError(t, d.Update(t.Context(), hc))
			require.NoError(t, d.Update(t.Context(), a))
			a.Status = st
			require.NoError(t, d.Status().Update(t.Context(), a))
			_, err := d.controller.Reconcile(t.Context(), a)
			require.NoError(t, err)
			require.Equal(t, tt.tries, d.apps.tries)
			err = d.Get(t.Context(), client.ObjectKeyFromObject(d.attachment), a)
			require.Equal(t, tt.waits, err == nil, "%v", err)
		})
	}
}
