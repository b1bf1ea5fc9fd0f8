package status_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/status"
)

// sent records the statuses that are applied.
type sent struct {
	owner string
	body  map[string]any
}

func recorder(t *testing.T) (client.Client, *[]sent) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	list := &[]sent{}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			options := client.SubResourceApplyOptions{}
			options.ApplyOpts(opts)
			u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			require.NoError(t, err)
			*list = append(*list, sent{options.FieldManager, u})
			return nil
		},
	}).Build()
	return c, list
}

func attachment() *v1alpha1.InfraClusterAttachment {
	a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	for _, c := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionProgrammed} {
		meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: "R"})
	}
	return a
}

// behaviour H4: each writer sends its own part, and nothing when that is unchanged.
func TestAWriterSendsItsOwnPartOnceAndOnlyWhenChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.InfraClusterAttachment)
		// types that the controller's and the Infra controller's writer send; nil: no request.
		controller, infra []string
	}{
		{"nothing has changed", func(*v1alpha1.InfraClusterAttachment) {}, nil, nil},
		{"the order of the conditions says nothing", func(a *v1alpha1.InfraClusterAttachment) {
			a.Status.Conditions[0], a.Status.Conditions[1] = a.Status.Conditions[1], a.Status.Conditions[0]
		}, nil, nil},
		{"a domain is observed", func(a *v1alpha1.InfraClusterAttachment) { a.Status.Domain = "d.example.com" }, []string{"Ready"}, nil},
		{"Programmed has changed", func(a *v1alpha1.InfraClusterAttachment) {
			meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: "R"})
		}, nil, []string{"Programmed"}},
		{"Ready has changed", func(a *v1alpha1.InfraClusterAttachment) {
			meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "R"})
		}, []string{"Ready"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := attachment(), attachment()
			after.Status = *before.Status.DeepCopy()
			c.change(after)
			k, list := recorder(t)
			require.NoError(t, status.Everything(k, status.OwnerController, nil, []string{v1alpha1.ConditionProgrammed}).Patch(t.Context(), before, after))
			require.Equal(t, c.controller, types(t, *list))
			*list = nil
			require.NoError(t, status.Conditions(k, status.OwnerInfra, v1alpha1.ConditionProgrammed).Patch(t.Context(), before, after))
			require.Equal(t, c.infra, types(t, *list))
		})
	}
}

// behaviour H4: a message with other people's words in it is not longer than the API
// server takes, or nothing of the status would be written.
func TestALongMessageIsCut(t *testing.T) {
	before, after := attachment(), attachment()
	meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "R", Message: "x" + strings.Repeat("é", 100_000),
	})
	k, list := recorder(t)
	require.NoError(t, status.Everything(k, status.OwnerController, nil, nil).Patch(t.Context(), before, after))
	conditions, _, err := unstructured.NestedSlice((*list)[0].body, "status", "conditions")
	require.NoError(t, err)
	var cut string
	for _, c := range conditions {
		if m := c.(map[string]any); m["type"] == v1alpha1.ConditionReady {
			cut = m["message"].(string)
		}
	}
	require.True(t, strings.HasPrefix(cut, "xé") && strings.HasSuffix(cut, "é ..."))
	require.LessOrEqual(t, len(cut), 32768)
}

// behaviour H4: an agent's stanza is never the operator's to write.
func TestAnAgentsStanzaIsLeftOut(t *testing.T) {
	before := &v1alpha1.DNSServer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", UID: "u"}}
	after := before.DeepCopy()
	after.Status.Agent = &v1alpha1.DNSAgentStatus{Names: 4}
	k, list := recorder(t)
	writer := status.Everything(k, status.OwnerController, []string{"agent"}, nil)
	require.NoError(t, writer.Patch(t.Context(), before, after))
	require.Empty(t, *list)
	after.Status.SnapshotVersion = "sha256:1"
	require.NoError(t, writer.Patch(t.Context(), before, after))
	require.Len(t, *list, 1)
	content, _, err := unstructured.NestedMap((*list)[0].body, "status")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"snapshotVersion": "sha256:1"}, content)
	require.Equal(t, "oooi-operator", (*list)[0].owner)
	uid, _, err := unstructured.NestedString((*list)[0].body, "metadata", "uid")
	require.NoError(t, err)
	require.Equal(t, "u", uid, "the status of a deleted object must not land on its namesake")
}

func types(t *testing.T, list []sent) []string {
	t.Helper()
	if len(list) == 0 {
		return nil
	}
	require.Len(t, list, 1)
	conditions, _, err := unstructured.NestedSlice(list[0].body, "status", "conditions")
	require.NoError(t, err)
	var out []string
	for _, c := range conditions {
		out = append(out, c.(map[string]any)["type"].(string))
	}
	return out
}
