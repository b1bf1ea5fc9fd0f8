package apply_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) { os.Exit(testenv.Run(m, &env, false)) }

// fixture is an applier that counts its writes.
type fixture struct {
	*apply.Applier
	writes    atomic.Int32
	namespace string
	owner     *v1alpha1.Infra
	set       apply.Set
}

var identity = map[string]string{"app.kubernetes.io/managed-by": "oooi-operator", "example.com/of": "test"}

var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")

func newFixture(t *testing.T, namespace string) *fixture {
	t.Helper()
	f := &fixture{namespace: namespace}
	counting := interceptor.NewClient(env.Client, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			f.writes.Add(1)
			return c.Apply(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			f.writes.Add(1)
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			f.writes.Add(1)
			return c.Delete(ctx, o, opts...)
		},
	})
	f.Applier = apply.New(counting, env.Client)
	f.owner = testenv.Infra(namespace, "owner", "vlan", 2)
	env.Must(t, testenv.NamespaceObject(namespace), f.owner)
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(f.owner), f.owner))
	f.set = apply.Set{
		Owner: f.owner, Identity: identity, Objects: []client.Object{f.config("a"), f.config("b"), f.deployment()},
		Prune: []apply.Scope{{Kind: configMaps, Namespace: namespace}, {Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Absent"}}},
	}
	return f
}

func (f *fixture) config(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: identity}, Data: map[string]string{"k": "v"}}
}

func (f *fixture) deployment() *appsv1.Deployment {
	pod := map[string]string{"example.com/pod": "x"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "d", Labels: identity},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "example.com/c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1000m")}},
			}}}},
		},
	}
}

// behaviour B8: the no-op law.
func TestAnUnchangedSetSendsNoRequest(t *testing.T) {
	f := newFixture(t, "unchanged")
	require.NoError(t, f.Set(t.Context(), f.set))
	require.Equal(t, int32(3), f.writes.Load())
	for range 5 {
		require.NoError(t, f.Set(t.Context(), f.set))
	}
	require.Equal(t, int32(3), f.writes.Load(), "a second pass writes nothing")

	// A new process applies once more, and the API server sees no change.
	before := &appsv1.Deployment{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(f.deployment()), before))
	require.NoError(t, apply.New(env.Client, env.Client).Set(t.Context(), f.set))
	after := &appsv1.Deployment{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(f.deployment()), after))
	require.Equal(t, before.ResourceVersion, after.ResourceVersion)
}

// behaviour B8: ours is put back, theirs is kept.
func TestOursIsPutBackAndTheirsIsKept(t *testing.T) {
	f := newFixture(t, "drift")
	require.NoError(t, f.Set(t.Context(), f.set))
	writes := f.writes.Load()
	a := f.config("a")
	change := func(patch string) {
		require.NoError(t, env.Client.Patch(t.Context(), a, client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
	change(`{"data":{"theirs":"x"},"metadata":{"labels":{"example.com/theirs":"x"}}}`)
	require.NoError(t, f.Set(t.Context(), f.set))
	require.Equal(t, writes, f.writes.Load(), "a field that we do not own is none of our business")
	change(`{"data":{"k":"changed"}}`)
	require.NoError(t, f.Set(t.Context(), f.set))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(a), a))
	require.Equal(t, map[string]string{"k": "v", "theirs": "x"}, a.Data)
	change(`{"data":{"k":null}}`)
	require.NoError(t, f.Set(t.Context(), f.set))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(a), a))
	require.Equal(t, "v", a.Data["k"])
}

// behaviour B6: only what carries our labels is ever deleted, and what is kept is not.
func TestPruningTakesOnlyOurOwn(t *testing.T) {
	f := newFixture(t, "prune")
	require.NoError(t, f.Set(t.Context(), f.set))
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "foreign", Labels: map[string]string{"app.kubernetes.io/managed-by": "oooi-operator"}}}
	env.Must(t, foreign)
	f.set.Objects, f.set.Keep = nil, []client.Object{f.config("b")}
	require.NoError(t, f.Set(t.Context(), f.set))
	require.NoError(t, env.Gone(t.Context(), f.config("a")))
	require.Error(t, env.Gone(t.Context(), f.config("b")))
	require.Error(t, env.Gone(t.Context(), foreign))
	require.Error(t, env.Gone(t.Context(), f.deployment()), "a kind that is not in a scope is not pruned")
	require.NoError(t, f.Remove(t.Context(), identity, apply.Scope{Kind: configMaps, Namespace: f.namespace}))
	require.NoError(t, env.Gone(t.Context(), f.config("b")))
	require.Error(t, f.Remove(t.Context(), nil, apply.Scope{Kind: configMaps}), "without labels nothing is removed")
}

// hazard 213: what is not ours is not taken over, and does not stop the rest.
func TestWhatIsNotOursIsNotTakenOver(t *testing.T) {
	f := newFixture(t, "taken")
	theirs := f.config("a")
	theirs.Labels = nil
	theirs.Data = map[string]string{"k": "theirs"}
	env.Must(t, theirs)
	err := f.Set(t.Context(), f.set)
	reason, message := outcome.Describe(err)
	require.Equal(t, v1alpha1.ReasonNameTaken, reason)
	require.Contains(t, message, "taken/a")
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
	require.Equal(t, "theirs", theirs.Data["k"])
	require.Error(t, env.Gone(t.Context(), f.config("b")), "the others are applied")

	bare := f.config("c")
	bare.Labels = nil
	f.set.Objects = []client.Object{bare}
	require.ErrorContains(t, f.Set(t.Context(), f.set), "lacks the labels of its set")
}

// behaviour B8: one of ours that somebody has taken a label off is still ours, and is
// put back.
func TestALabelThatWasTakenOffIsPutBack(t *testing.T) {
	f := newFixture(t, "unlabelled")
	require.NoError(t, f.Set(t.Context(), f.set))
	a := f.config("a")
	require.NoError(t, env.Client.Patch(t.Context(), a, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":null},"data":{"k":"changed"}}`))))
	require.NoError(t, f.Set(t.Context(), f.set))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(a), a))
	require.Equal(t, identity, a.Labels)
	require.Equal(t, "v", a.Data["k"])

	// What the same owner does not control stays somebody else's.
	f.set.Owner = nil
	require.NoError(t, env.Client.Patch(t.Context(), a, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":null}}`))))
	reason, _ := outcome.Describe(f.Set(t.Context(), f.set))
	require.Equal(t, v1alpha1.ReasonNameTaken, reason)
}

// An object that an earlier owner of our name has left is cleared away first.
func TestWhatADeletedOwnerHasLeftIsClearedAway(t *testing.T) {
	f := newFixture(t, "stale")
	yes := true
	left := f.config("a")
	left.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Infra", Name: "owner", UID: "00000000-0000-0000-0000-000000000000", Controller: &yes,
	}}
	env.Must(t, left)
	err := f.Set(t.Context(), f.set)
	res, failure := outcome.Result(err)
	require.NoError(t, failure)
	require.Positive(t, res.RequeueAfter)
	require.NoError(t, f.Set(t.Context(), f.set))
	made := f.config("a")
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made))
	require.True(t, metav1.IsControlledBy(made, f.owner))
}

// behaviour B11: the label is ours alone to give up.
func TestANamespaceKeepsALabelThatSomebodyElseHasSet(t *testing.T) {
	f := newFixture(t, "label")
	ns := testenv.NamespaceObject(f.namespace)
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
	require.NoError(t, f.Label(t.Context(), ns, "example.com/l", "x"))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
	require.Equal(t, "x", ns.Labels["example.com/l"])
	writes := f.writes.Load()
	require.NoError(t, f.Label(t.Context(), ns, "example.com/l", "x"))
	require.Equal(t, writes, f.writes.Load())
	require.NoError(t, f.Unlabel(t.Context(), ns.Name, "example.com/l"))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
	require.NotContains(t, ns.Labels, "example.com/l")

	require.NoError(t, env.Client.Patch(t.Context(), ns, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"example.com/l":"x"}}}`))))
	require.NoError(t, f.Unlabel(t.Context(), ns.Name, "example.com/l"))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
	require.Equal(t, "x", ns.Labels["example.com/l"])
}
