package vmi

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubevirt/fake"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

func instance(namespace, name, hw string) *kubevirtv1.VirtualMachineInstance {
	v := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	v.Spec.Domain.Devices.Interfaces = []kubevirtv1.Interface{{Name: "net", MacAddress: hw}}
	v.Spec.Networks = []kubevirtv1.Network{{Name: "net", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: "default/vlan100"}}}}
	return v
}

// watched runs a watcher against a fake API server.
func watched(t *testing.T, client *fake.Clientset, namespaces ...string) (chan<- *config.Config, func(func(*Index) bool)) {
	t.Helper()
	c := newCluster(client.KubevirtV1(), slog.Default())
	configs, indexes := make(chan *config.Config, 1), make(chan *Index, 64)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, configs, func(x *Index) { indexes <- x }) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-done) })
	cfg := fixture()
	cfg.Namespaces = namespaces
	configs <- cfg
	return configs, func(ok func(*Index) bool) {
		t.Helper()
		limit := time.After(20 * time.Second)
		for {
			select {
			case x := <-indexes:
				if ok(x) {
					return
				}
			case <-limit:
				t.Fatal("the index did not come to say what it should")
			}
		}
	}
}

// behaviour C3: machines come and go, in the namespaces that are looked at.
func TestMachinesAreWatched(t *testing.T) {
	client := fake.NewSimpleClientset(instance("a", "one", "02:00:5e:10:00:01"), instance("b", "two", "02:00:5e:10:00:02"))
	configs, until := watched(t, client, "a")
	until(func(x *Index) bool {
		return x.Len() == 1 && x.Exists(lease.VM{Namespace: "a", Name: "gone"}) == lease.Gone
	})
	_, err := client.KubevirtV1().VirtualMachineInstances("a").Create(t.Context(), instance("a", "three", "02:00:5e:10:00:03"), metav1.CreateOptions{})
	require.NoError(t, err)
	until(func(x *Index) bool { return len(x.VMs(mac(3))) == 1 })
	require.NoError(t, client.KubevirtV1().VirtualMachineInstances("a").Delete(t.Context(), "one", metav1.DeleteOptions{}))
	until(func(x *Index) bool {
		return len(x.VMs(mac(1))) == 0 && x.Exists(lease.VM{Namespace: "a", Name: "one"}) == lease.Gone
	})

	all := fixture()
	all.Namespaces = []string{"*"}
	configs <- all
	until(func(x *Index) bool { return x.Len() == 2 && x.Complete(all) })
	some := fixture()
	some.Namespaces = []string{"b", "elsewhere"}
	configs <- some
	until(func(x *Index) bool { return x.Len() == 1 && x.Complete(some) })
}

// behaviour C3: a namespace that may not be read says nothing about its
// machines; without KubeVirt there are none.
func TestWhatCannotBeReadIsNotGone(t *testing.T) {
	vm := lease.VM{Namespace: "a", Name: "one"}
	for _, c := range []struct {
		name string
		err  error
		want lease.Existence
	}{
		{"forbidden", apierrors.NewForbidden(schema.GroupResource{Resource: "virtualmachineinstances"}, "", errors.New("no")), lease.Unknown},
		{"the API is away", errors.New("connection refused"), lease.Unknown},
		{"KubeVirt is not installed", apierrors.NewNotFound(schema.GroupResource{Resource: "virtualmachineinstances"}, ""), lease.Gone},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewSimpleClientset()
			client.PrependReactor("list", "virtualmachineinstances", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			_, until := watched(t, client, "a")
			until(func(x *Index) bool { return x.Exists(vm) == c.want })
		})
	}
}

func TestWhatIsKeptOfAMachineIsSmall(t *testing.T) {
	in := instance("a", "one", "02:00:5e:10:00:01")
	in.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	in.Annotations = map[string]string{"big": "x"}
	in.Status.Phase = kubevirtv1.Running
	out, err := slim(in)
	require.NoError(t, err)
	v := out.(*kubevirtv1.VirtualMachineInstance)
	require.Empty(t, v.ManagedFields)
	require.Empty(t, v.Annotations)
	require.Equal(t, in.Spec.Networks, v.Spec.Networks)
	require.Equal(t, kubevirtv1.Running, v.Status.Phase)
	vm := &kubevirtv1.VirtualMachine{}
	out, err = slim(vm)
	require.NoError(t, err)
	require.Nil(t, out.(*kubevirtv1.VirtualMachine).Spec.Template)
	out, err = slim("anything else")
	require.NoError(t, err)
	require.Equal(t, "anything else", out)
}

// behaviour C3: what is written into machines all the time, and says nothing of
// this network, is no work.
func TestWhatDoesNotMatterIsNoNews(t *testing.T) {
	is := instance("a", "one", "02:00:5e:10:00:01")
	other := is.DeepCopy()
	other.ResourceVersion = "2"
	require.False(t, news(is, other))
	other.Status.Phase = kubevirtv1.Succeeded
	require.True(t, news(is, other))
	vm := &kubevirtv1.VirtualMachine{}
	require.False(t, news(vm, vm.DeepCopy()))
	require.True(t, news(vm, is))
}
