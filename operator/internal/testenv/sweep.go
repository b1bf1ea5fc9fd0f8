package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Sweep removes a namespace and the control planes of its clusters after a test,
// with the finalizers of what is left: the operator may be gone by then.
func (e *Env) Sweep(t testing.TB, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	for _, list := range []client.ObjectList{
		&v1alpha1.InfraClusterAttachmentList{}, &v1alpha1.InfraList{}, &v1alpha1.DHCPServerList{}, &v1alpha1.DNSServerList{}, &v1alpha1.ProxyServerList{},
	} {
		require.NoError(t, e.Client.List(ctx, list, client.InNamespace(namespace)))
		items, err := meta.ExtractList(list)
		require.NoError(t, err)
		for _, item := range items {
			o := item.(client.Object)
			require.NoError(t, client.IgnoreNotFound(e.Client.Delete(ctx, o)))
			if len(o.GetFinalizers()) > 0 {
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
				require.NoError(t, client.IgnoreNotFound(e.Client.Patch(ctx, o, patch)))
			}
		}
	}
	var namespaces corev1.NamespaceList
	require.NoError(t, e.Client.List(ctx, &namespaces))
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		if ns.Name == namespace || len(ns.Name) > len(namespace) && ns.Name[:len(namespace)+1] == namespace+"-" {
			require.NoError(t, client.IgnoreNotFound(e.Client.Delete(ctx, ns)), "deleting %s", ns.Name)
		}
	}
}
