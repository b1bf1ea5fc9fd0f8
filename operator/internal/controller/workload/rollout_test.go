package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clock is moved by hand.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

var (
	aProxy = RolloutKey{Namespace: "ns", Instance: "a", Rank: 0}
	aDNS   = RolloutKey{Namespace: "ns", Instance: "a", Rank: 1}
	bProxy = RolloutKey{Namespace: "ns", Instance: "b", Rank: 0}
)

// behaviour B13, hazards 220, 249, 260: one component at a time, in order.
func TestOneComponentAtATimeInOrder(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	r := NewRollouts(c.read)
	require.False(t, r.Start(aDNS), "those before it may ask first")
	c.now = c.now.Add(3 * time.Second)
	require.True(t, r.Start(aDNS))
	require.True(t, r.Start(aDNS), "its own roll-out does not hold it up")
	require.False(t, r.Start(bProxy))
	require.False(t, r.Start(aProxy))
	require.True(t, r.Active())
	r.Seen(aDNS, false, c.now)
	require.False(t, r.Active())
	c.now = c.now.Add(3 * time.Second)
	require.False(t, r.Start(bProxy), "one that comes first waits too")
	require.True(t, r.Start(aProxy))
	r.Seen(aProxy, true, c.now)
	require.False(t, r.Start(bProxy))
	c.now = c.now.Add(9 * time.Minute)
	require.False(t, r.Start(bProxy))
	c.now = c.now.Add(2 * time.Minute)
	require.False(t, r.Start(bProxy))
	c.now = c.now.Add(3 * time.Second)
	require.True(t, r.Start(bProxy), "one that is not Ready after ten minutes blocks nobody")
	r.Done(bProxy)
	r.Done(aProxy)
	require.False(t, r.Active())
}

func TestOneThatNoLongerAsksHoldsNobodyUp(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	r := NewRollouts(c.read)
	require.False(t, r.Start(aDNS))
	require.False(t, r.Start(bProxy))
	c.now = c.now.Add(13 * time.Second)
	require.False(t, r.Start(bProxy), "aDNS comes first")
	c.now = c.now.Add(3 * time.Second)
	require.True(t, r.Start(bProxy))
}

func TestRollingIsToldFromTheDeployment(t *testing.T) {
	one := int32(1)
	up := appsv1.DeploymentStatus{ObservedGeneration: 2, UpdatedReplicas: 1, AvailableReplicas: 1}
	for _, c := range []struct {
		name   string
		status appsv1.DeploymentStatus
		want   bool
	}{
		{"up and up to date", up, false},
		{"the controller has not seen the change", appsv1.DeploymentStatus{ObservedGeneration: 1, UpdatedReplicas: 1, AvailableReplicas: 1}, true},
		{"the old pod is still there", appsv1.DeploymentStatus{ObservedGeneration: 2, AvailableReplicas: 1}, true},
		{"the new pod is not up", appsv1.DeploymentStatus{ObservedGeneration: 2, UpdatedReplicas: 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: &one}, Status: c.status}
			require.Equal(t, c.want, rolling(d))
		})
	}
}

func TestProblemsOfPodsAreSteadyWords(t *testing.T) {
	waiting := func(reason, message string) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "dns", Image: "example.com/i:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}},
		}}}}
	}
	refused := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "vlan-dns"}, Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "vlan-dns-5c9c7f9b5d-x7k2p" is forbidden: exceeded quota`,
	}}}}
	plain := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "vlan-dns"}}
	for _, c := range []struct {
		name string
		d    *appsv1.Deployment
		pods []corev1.Pod
		want string
	}{
		{"nothing is known", plain, nil, ""},
		{"a quota refuses the pod", refused, nil, `no pod can be made: pods "vlan-dns" is forbidden: exceeded quota`},
		{"it is being made", plain, []corev1.Pod{waiting("ContainerCreating", "")}, ""},
		{"the image is missing", plain, []corev1.Pod{waiting("ErrImagePull", "rpc error 4711")}, "container dns: image example.com/i:1 cannot be pulled (ErrImagePull)"},
		{"it crashes", plain, []corev1.Pod{waiting("CrashLoopBackOff", "back-off 5m0s restarting")}, "container dns: it ends again and again, the last time with exit code 2 (Error)"},
		{"a Secret is missing", plain, []corev1.Pod{waiting("CreateContainerConfigError", `secret "x" not found`)}, `container dns: CreateContainerConfigError: secret "x" not found`},
		{"a sysctl is forbidden", plain, []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "SysctlForbidden", Message: "forbidden sysctl"}}}, "the pod failed: SysctlForbidden: forbidden sysctl"},
		{"no node takes it", plain, []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available",
		}}}}}, "the pod cannot be scheduled: 0/3 nodes are available"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, podProblem(c.d, c.pods)) })
	}
	require.Equal(t, `failed to set up sandbox container "..." network for pod "vlan-dns": no master`,
		steady(`failed to set up sandbox container "0123456789abcdef0123" network for pod "vlan-dns-5c9c7f9b5d-x7k2p": no master`, "vlan-dns"))
}
