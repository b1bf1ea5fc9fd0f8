package policy_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/policy"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
)

// nothing of the optional kinds is served.
type nothing struct{}

func (nothing) Served(kinds.Kind) (schema.GroupVersionKind, bool) {
	return schema.GroupVersionKind{}, false
}

func (nothing) Known(context.Context) error { return nil }

// hub is a management cluster with an Infra "vlan" in each tenant's namespace.
type hub struct {
	client.Client
	*policy.Policies
}

func newHub(t *testing.T, failing func() error, tenants []string, attachments ...*v1alpha1.InfraClusterAttachment) *hub {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(writes(failing)).WithStatusSubresource(&v1alpha1.InfraClusterAttachment{}).
		WithIndex(&v1alpha1.InfraClusterAttachment{}, world.IndexControlPlane, func(o client.Object) []string {
			return []string{facts.ControlPlaneOf(o.(*v1alpha1.InfraClusterAttachment))}
		})
	for _, ns := range tenants {
		b = b.WithObjects(&v1alpha1.Infra{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vlan"}})
	}
	for _, a := range attachments {
		b = b.WithObjects(a)
	}
	h := &hub{Client: b.Build()}
	applier := apply.New(h.Client, h.Client)
	reader := world.New(h.Client, nothing{}, world.NewHubNetworks(h.Client, time.Now), world.NewBoard(time.Now))
	h.Policies = &policy.Policies{Applier: applier, World: reader}
	return h
}

// writes fail as failing says. The policy is written as it is applied: the client's own
// server-side apply knows no NetworkPolicy.
func writes(failing func() error) interceptor.Funcs {
	return interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := failing(); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			if err := failing(); err != nil {
				return err
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return err
			}
			p := &networkingv1.NetworkPolicy{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, p); err != nil {
				return err
			}
			had := &networkingv1.NetworkPolicy{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(p), had); apierrors.IsNotFound(err) {
				return c.Create(ctx, p)
			}
			p.ResourceVersion = had.ResourceVersion
			return c.Update(ctx, p)
		},
	}
}

func works() error { return nil }

// tenantsOf are the namespaces whose proxies the policy of a namespace lets in.
func (h *hub) tenantsOf(t *testing.T, namespace string) []string {
	t.Helper()
	p := &networkingv1.NetworkPolicy{}
	if err := h.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "allow-infrastructure"}, p); err != nil {
		require.NoError(t, client.IgnoreNotFound(err))
		return nil
	}
	var out []string
	for _, rule := range p.Spec.Ingress {
		for _, from := range rule.From {
			out = append(out, from.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
		}
	}
	return out
}

// attached is a tenant's attachment that was admitted to one control plane, with a
// UID on record, and by now names another one, or the same.
func attached(tenant, uid, to, names string) *v1alpha1.InfraClusterAttachment {
	a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "a", UID: types.UID("a-" + tenant)}}
	a.Spec.InfraRef.Name = "vlan"
	a.Spec.ControlPlaneNamespace = v1alpha1.NamespaceName(names)
	a.Status.ControlPlaneNamespace = v1alpha1.NamespaceName(to)
	a.Status.Observed.HostedClusterUID = uid
	a.Status.Observed.Services = []v1alpha1.ObservedService{{Role: v1alpha1.ServiceRoleAPIServer, Port: 6443}}
	return a
}

// behaviour F0: whom a control plane lets in was admitted to that control plane, not to
// another one that it named before.
func TestWhoWasAdmittedElsewhereIsNotLetIn(t *testing.T) {
	t.Parallel()
	owner := attached("owner", "hc", "victim", "victim")
	for _, c := range []struct {
		name   string
		thief  *v1alpha1.InfraClusterAttachment
		own    *v1alpha1.InfraClusterAttachment
		letsIn []string
	}{
		{"an attachment that has just named it", attached("thief", "theirs", "elsewhere", "victim"), nil, []string{"owner"}},
		{"the same, while the owner's own pass is at work", attached("thief", "theirs", "elsewhere", "victim"), owner, []string{"owner"}},
		{"one that has no cluster", attached("thief", "", "victim", "victim"), nil, []string{"owner"}},
		{"a second one that was admitted to it", attached("thief", "hc", "victim", "victim"), nil, []string{"owner", "thief"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, works, []string{"owner", "thief"}, owner.DeepCopy(), c.thief)
			require.NoError(t, h.Settle(t.Context(), "victim", c.own))
			require.Equal(t, c.letsIn, h.tenantsOf(t, "victim"))
		})
	}
}
