package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Kubelet stands in for kubelet and Multus: it lets the pods of a namespace run
// and writes their network-status, until the test ends.
func (e *Env) Kubelet(t testing.TB, namespace string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				e.runPods(ctx, namespace)
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

func (e *Env) runPods(ctx context.Context, namespace string) {
	var pods corev1.PodList
	if err := e.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return // the test is over, or asks again
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch {
		case p.DeletionTimestamp != nil:
			_ = e.Client.Delete(ctx, p, client.GracePeriodSeconds(0))
		case p.Status.Phase != corev1.PodRunning:
			_ = e.RunPod(ctx, p, true)
		}
	}
}

// RunPod makes a pod Ready; attached: with the addresses that its annotation
// asks Multus for.
func (e *Env) RunPod(ctx context.Context, p *corev1.Pod, attached bool) error {
	if attached {
		var wanted []struct {
			Name, Namespace, Interface string
			IPs                        []string
		}
		if err := json.Unmarshal([]byte(p.Annotations["k8s.v1.cni.cncf.io/networks"]), &wanted); err != nil {
			return fmt.Errorf("reading the networks annotation: %w", err)
		}
		status := []map[string]any{{"name": "pod-network", "interface": "eth0", "ips": []string{"10.244.0.9"}, "default": true}}
		for _, w := range wanted {
			status = append(status, map[string]any{"name": w.Namespace + "/" + w.Name, "interface": w.Interface, "ips": bare(w.IPs)})
		}
		text, err := json.Marshal(status)
		if err != nil {
			return fmt.Errorf("writing network-status: %w", err)
		}
		before := p.DeepCopy()
		p.Annotations["k8s.v1.cni.cncf.io/network-status"] = string(text)
		if err := e.Client.Patch(ctx, p, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("annotating a pod: %w", err)
		}
	}
	now := metav1.Now()
	p.Status.Phase, p.Status.PodIP, p.Status.StartTime = corev1.PodRunning, "10.244.0.9", &now
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}
	if err := e.Client.Status().Update(ctx, p); err != nil {
		return fmt.Errorf("running a pod: %w", err)
	}
	return nil
}

func bare(ips []string) []string {
	out := make([]string, 0, len(ips))
	for _, ip := range ips {
		for i := range ip {
			if ip[i] == '/' {
				ip = ip[:i]
				break
			}
		}
		out = append(out, ip)
	}
	return out
}

// agentOwners are the field owners of the agents, by their child's kind.
var agentOwners = map[string]client.FieldOwner{
	v1alpha1.KindDHCPServer: "oooi-dhcpd", v1alpha1.KindDNSServer: "oooi-coredns", v1alpha1.KindProxyServer: "oooi-xds-manager",
}

// Report writes status.agent of a child as its agent does: by server-side apply
// with the token of the pod's ServiceAccount, which has the child's name.
func (e *Env) Report(ctx context.Context, kind, namespace, name string, stanza map[string]any) error {
	config, err := e.As(ctx, namespace, name)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: e.Client.Scheme(), Mapper: e.Client.RESTMapper()})
	if err != nil {
		return fmt.Errorf("making an agent's client: %w", err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"agent": stanza}}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	u.SetNamespace(namespace)
	u.SetName(name)
	if err := c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), agentOwners[kind], client.ForceOwnership); err != nil {
		return fmt.Errorf("reporting as the agent of %s: %w", name, err)
	}
	return nil
}

// Agents stand in for the three agents of an Infra: they report each wanted
// snapshot as in force, dhcpd with its bindings, until the test ends.
func (e *Env) Agents(t testing.TB, namespace, infra string, bindings ...any) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		reported := map[string]string{}
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for kind, suffix := range map[string]string{v1alpha1.KindDHCPServer: "-dhcp", v1alpha1.KindDNSServer: "-dns", v1alpha1.KindProxyServer: "-proxy"} {
				e.follow(ctx, kind, namespace, infra+suffix, bindings, reported)
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

func (e *Env) follow(ctx context.Context, kind, namespace, name string, bindings []any, reported map[string]string) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u); err != nil {
		return // not made yet, or the test is over
	}
	version, _, _ := unstructured.NestedString(u.Object, "status", "snapshotVersion")
	if version == "" || reported[name] == version {
		return
	}
	stanza := Stanza(version)
	switch {
	case kind == v1alpha1.KindProxyServer:
		stanza["acceptedVersion"] = version
	case kind == v1alpha1.KindDHCPServer && len(bindings) > 0:
		stanza["bindings"] = bindings
	}
	if e.Report(ctx, kind, namespace, name, stanza) == nil {
		reported[name] = version
	}
}

// Stanza is what an agent reports that has a snapshot in force.
func Stanza(version string, problems ...v1alpha1.AgentProblem) map[string]any {
	out := map[string]any{"observedVersion": version, "observedGeneration": int64(1), "moduleVersion": "v0.1.0", "contract": "agent.v1"}
	if len(problems) > 0 {
		var list []any
		for _, p := range problems {
			list = append(list, map[string]any{"reason": p.Reason, "message": p.Message})
		}
		out["problems"] = list
	}
	return out
}

// MustYAML decodes a manifest into an object.
func MustYAML(t testing.TB, text string, into client.Object) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), into))
}

// Gone tells whether an object no longer exists.
func (e *Env) Gone(ctx context.Context, o client.Object) error {
	err := e.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%T %s is still there (deletion %v, finalizers %v)", o, client.ObjectKeyFromObject(o), o.GetDeletionTimestamp(), o.GetFinalizers())
}
