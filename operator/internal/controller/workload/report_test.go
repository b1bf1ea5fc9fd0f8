package workload

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// behaviour H4: conditions are the operator's, made from what the agent says of
// itself; a contract that is another one is a condition, no crash.
func TestWhatTheAgentSaysBecomesConfigAccepted(t *testing.T) {
	t.Parallel()
	says := func(contract string, problems ...v1alpha1.AgentProblem) *v1alpha1.AgentStatus {
		return &v1alpha1.AgentStatus{Contract: contract, ModuleVersion: "v0.9.0", Problems: problems}
	}
	for _, tc := range []struct {
		name    string
		inForce string
		agent   *v1alpha1.AgentStatus
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{name: "nothing yet", status: metav1.ConditionUnknown, reason: v1alpha1.ReasonWaitingForAgent, message: "has not reported yet"},
		{
			name: "an older snapshot", inForce: "sha256:old", agent: says(agent.Contract),
			status: metav1.ConditionFalse, reason: v1alpha1.ReasonWaitingForAgent, message: "has not the wanted snapshot in force yet",
		},
		{name: "the wanted one", inForce: "sha256:new", agent: says(agent.Contract), status: metav1.ConditionTrue, reason: v1alpha1.ReasonAsExpected},
		{
			name: "another contract", inForce: "sha256:new", agent: says("agent.v2"),
			status: metav1.ConditionFalse, reason: v1alpha1.ReasonContractMismatch, message: "the agent (v0.9.0) speaks agent.v2, the operator agent.v1",
		},
		{
			name: "a refusal of Envoy's", inForce: "sha256:old", agent: says(agent.Contract, v1alpha1.AgentProblem{Reason: "ConfigRejected", Message: "no such cluster"}),
			status: metav1.ConditionFalse, reason: v1alpha1.ReasonConfigRejected, message: "no such cluster",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := configCondition("sha256:new", tc.inForce, tc.agent)
			require.Equal(t, []string{string(tc.status), tc.reason}, []string{string(c.Status), c.Reason})
			require.Contains(t, c.Message, tc.message)
		})
	}
}

// behaviours B13, H2: a component that waits for its turn says so, and one whose
// objects cannot be written has the API server's words.
func TestWorkloadReadySaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	c := &Controller[*v1alpha1.DNSServer]{}
	waits := c.workloadCondition(seen{waiting: true}, nil)
	require.Equal(t, v1alpha1.ConditionWorkloadReady, waits.Type)
	require.Equal(t, v1alpha1.ReasonWaitingForRollout, waits.Reason)
	require.Contains(t, waits.Message, "the pod runs as it was until then")
	progress := progressingCondition(seen{waiting: true, deployment: &appsv1.Deployment{}}, "a", "a")
	require.Equal(t, []string{"True", v1alpha1.ReasonWaitingForRollout}, []string{string(progress.Status), progress.Reason})

	failed := c.workloadCondition(seen{}, errors.New("exceeded quota"))
	require.Equal(t, []string{"False", v1alpha1.ReasonReconciliationFailed, "exceeded quota"}, []string{string(failed.Status), failed.Reason, failed.Message})
	taken := c.workloadCondition(seen{waiting: true}, outcome.Invalid{Reason: v1alpha1.ReasonNameTaken, Message: "Service x is somebody else's"})
	require.Equal(t, v1alpha1.ReasonNameTaken, taken.Reason)
	require.Equal(t, metav1.ConditionTrue, c.workloadCondition(seen{}, nil).Status)
}

// behaviour H2: several problems stand in one condition, in the agent's words, and
// what users do not know has one reason.
func TestAgentsProblemsAreDegraded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		agent  *v1alpha1.AgentStatus
		seen   []v1alpha1.AgentProblem
		reason string
		says   string
	}{
		{name: "none", agent: &v1alpha1.AgentStatus{}, reason: v1alpha1.ReasonAsExpected},
		{
			name:   "one that users know",
			agent:  &v1alpha1.AgentStatus{Problems: []v1alpha1.AgentProblem{{Reason: "ForwardingEnabled", Message: "add sysctl"}}},
			reason: v1alpha1.ReasonForwardingEnabled, says: "ForwardingEnabled: add sysctl",
		},
		{
			name:   "one of the network's",
			agent:  &v1alpha1.AgentStatus{Problems: []v1alpha1.AgentProblem{{Reason: "NoVLANRoute", Message: "198.51.100.0/24"}}},
			reason: v1alpha1.ReasonNoVLANRoute, says: "NoVLANRoute: 198.51.100.0/24",
		},
		{
			name:   "others",
			agent:  &v1alpha1.AgentStatus{Problems: []v1alpha1.AgentProblem{{Reason: "DiskFull", Message: "a"}, {Reason: "RangeEmpty", Message: "b"}}},
			reason: v1alpha1.ReasonAgentProblem, says: "DiskFull: a; RangeEmpty: b",
		},
		{
			name: "what shows on the pod beside the agent's", agent: &v1alpha1.AgentStatus{Problems: []v1alpha1.AgentProblem{{Reason: "DiskFull", Message: "a"}}},
			seen:   []v1alpha1.AgentProblem{{Reason: "MTUMismatch", Message: "b"}},
			reason: v1alpha1.ReasonAgentProblem, says: "DiskFull: a; MTUMismatch: b",
		},
		{
			name: "what shows on the pod alone", seen: []v1alpha1.AgentProblem{{Reason: "MTUMismatch", Message: "b"}},
			reason: v1alpha1.ReasonMTUMismatch, says: "MTUMismatch: b",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := degradedCondition(nil, tc.agent, tc.seen)
			require.Equal(t, tc.reason, c.Reason)
			require.Equal(t, tc.says, c.Message)
		})
	}
}

// hazard 19: the pod's link has another MTU than the network says, larger or smaller.
func TestALinkOfAnotherMTUIsNamed(t *testing.T) {
	t.Parallel()
	pod := func(status string) []corev1.Pod {
		return []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{networkStatus: status}}}}
	}
	link := func(mtu string) []corev1.Pod {
		return pod(`[{"name":"pods","interface":"eth0","ips":["10.1.0.9"],"mtu":1400},{"name":"infra/vlan","interface":"vlan0","ips":["192.0.2.4"]` + mtu + `}]`)
	}
	for _, tc := range []struct {
		name string
		nad  int
		pods []corev1.Pod
		says string
	}{
		{"the same", 1500, link(`,"mtu":1500`), ""},
		{"a smaller link", 9000, link(`,"mtu":1400`), "NetworkAttachmentDefinition infra/vlan says MTU 9000, but the pod's link on it has 1400"},
		{"a larger link", 1400, link(`,"mtu":1500`), "NetworkAttachmentDefinition infra/vlan says MTU 1400, but the pod's link on it has 1500"},
		{"a network that names none", 0, link(`,"mtu":1400`), ""},
		{"a Multus that does not tell", 9000, link(``), ""},
		{"no address on any network", 9000, pod(`[{"name":"pods","ips":["10.1.0.9"],"mtu":1400}]`), ""},
		{"no network-status that can be read", 9000, pod(`[`), ""},
		{"no pod", 9000, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found := linkProblem(seen{nad: types.NamespacedName{Namespace: "infra", Name: "vlan"}, nadMTU: tc.nad, serverIP: "192.0.2.4", pods: tc.pods})
			if tc.says == "" {
				require.Empty(t, found)
				return
			}
			require.Equal(t, []v1alpha1.AgentProblem{{Reason: v1alpha1.ReasonMTUMismatch, Message: tc.says}}, found)
		})
	}
}
