package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// report makes the child's conditions from what was seen. The error is a wait,
// where nothing will wake the controller.
func (c *Controller[T]) report(child T, s seen, workErr error) (T, error) {
	view := c.Kind.View(child)
	st := view.Status
	st.ObservedGeneration = child.GetGeneration()
	workload := c.workloadCondition(s, workErr)
	network := networkCondition(s)
	config := configCondition(st.SnapshotVersion, view.InForce, view.Agent)
	for _, cond := range []metav1.Condition{
		workload, network, config,
		readyCondition(workload, network, workErr),
		availableCondition(s, network, config),
		progressingCondition(s, st.SnapshotVersion, view.InForce),
		degradedCondition(workErr, view.Agent, linkProblem(s)),
	} {
		cond.ObservedGeneration = child.GetGeneration()
		meta.SetStatusCondition(&st.Conditions, cond)
	}
	switch {
	case s.waiting:
		return child, outcome.Waiting{Reason: v1alpha1.ReasonWaitingForRollout, After: askAgain}
	case hanging(s.pods):
		return child, outcome.Waiting{Reason: v1alpha1.ReasonRollingOut, After: hangsAfter}
	case s.deployment != nil && rolling(s.deployment):
		// A pod that is stuck changes nothing that would wake the controller.
		return child, outcome.Waiting{Reason: v1alpha1.ReasonDeploymentUnavailable, After: stuckAfter}
	}
	return child, nil
}

// stuckAfter is when the events of a pod that does not start are looked at.
const stuckAfter = 20 * time.Second

func (c *Controller[T]) workloadCondition(s seen, err error) metav1.Condition {
	cond := outcome.Condition(v1alpha1.ConditionWorkloadReady, 0, err)
	if err == nil && s.waiting {
		cond.Status, cond.Reason = metav1.ConditionFalse, v1alpha1.ReasonWaitingForRollout
		cond.Message = "another component rolls out first; the pod runs as it was until then"
	}
	return cond
}

func networkCondition(s seen) metav1.Condition {
	cond := metav1.Condition{Type: v1alpha1.ConditionNetworkReady, Status: metav1.ConditionFalse}
	pod := live(s.pods)
	switch {
	case s.nad.Name == "":
		cond.Status, cond.Reason = metav1.ConditionTrue, v1alpha1.ReasonAsExpected
		cond.Message = "no NetworkAttachmentDefinition is named; the pod has the pod network alone"
	case !s.nadKnown:
		cond.Reason = v1alpha1.ReasonMissingAPI
		cond.Message = "the cluster does not serve NetworkAttachmentDefinitions (k8s.cni.cncf.io/v1); install Multus"
	case !s.nadExists:
		cond.Reason = v1alpha1.ReasonNetworkAttachmentNotFound
		cond.Message = fmt.Sprintf("NetworkAttachmentDefinition %s does not exist", s.nad)
	case pod == nil:
		cond.Status, cond.Reason, cond.Message = metav1.ConditionUnknown, v1alpha1.ReasonDeploymentUnavailable, "there is no pod yet"
	default:
		has, known := attached(pod, s.serverIP)
		switch {
		case len(has.IPs) > 0:
			cond.Status, cond.Reason = metav1.ConditionTrue, v1alpha1.ReasonAsExpected
		case known || ready(pod):
			cond.Reason = v1alpha1.ReasonAddressNotAssigned
			cond.Message = fmt.Sprintf("the pod's network-status does not show %s; does %s allow static addresses (capabilities.ips)?", s.serverIP, s.nad)
		default:
			cond.Status, cond.Reason, cond.Message = metav1.ConditionUnknown, v1alpha1.ReasonDeploymentUnavailable, "the pod has no network yet"
		}
	}
	return cond
}

func configCondition(wanted, inForce string, a *v1alpha1.AgentStatus) metav1.Condition {
	cond := metav1.Condition{Type: v1alpha1.ConditionConfigAccepted, Status: metav1.ConditionFalse}
	switch {
	case a == nil:
		cond.Status, cond.Reason, cond.Message = metav1.ConditionUnknown, v1alpha1.ReasonWaitingForAgent, "the agent has not reported yet"
	case a.Contract != "" && a.Contract != agent.Contract:
		cond.Reason = v1alpha1.ReasonContractMismatch
		cond.Message = fmt.Sprintf("the agent (%s) speaks %s, the operator %s; run matching versions", a.ModuleVersion, a.Contract, agent.Contract)
	case problem(a, v1alpha1.ReasonConfigRejected) != "":
		cond.Reason, cond.Message = v1alpha1.ReasonConfigRejected, problem(a, v1alpha1.ReasonConfigRejected)
	case wanted == "" || inForce != wanted:
		cond.Reason, cond.Message = v1alpha1.ReasonWaitingForAgent, "the agent has not the wanted snapshot in force yet"
	default:
		cond.Status, cond.Reason = metav1.ConditionTrue, v1alpha1.ReasonAsExpected
	}
	return cond
}

// readyCondition: provisioned as declared, and nothing is known to be wrong
// with the network that the pod stands in (behaviour B3).
func readyCondition(workload, network metav1.Condition, err error) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReconciliationSucceeded}
	switch {
	case err != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, workload.Reason, workload.Message
	case network.Status == metav1.ConditionFalse:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, network.Reason, network.Message
	}
	return ready
}

func availableCondition(s seen, network, config metav1.Condition) metav1.Condition {
	cond := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse}
	switch {
	case network.Status == metav1.ConditionFalse:
		cond.Reason, cond.Message = network.Reason, network.Message
	case s.deployment == nil:
		cond.Reason, cond.Message = v1alpha1.ReasonDeploymentUnavailable, "there is no Deployment yet"
	case s.deployment.Status.AvailableReplicas == 0:
		cond.Reason, cond.Message = v1alpha1.ReasonDeploymentUnavailable, "no pod is ready"
		if words := s.problem; words != "" {
			cond.Message = words
		}
	case network.Status != metav1.ConditionTrue:
		cond.Reason, cond.Message = network.Reason, network.Message
	case config.Status != metav1.ConditionTrue:
		cond.Reason, cond.Message = config.Reason, config.Message
	default:
		cond.Status, cond.Reason = metav1.ConditionTrue, v1alpha1.ReasonAsExpected
	}
	return cond
}

func progressingCondition(s seen, wanted, inForce string) metav1.Condition {
	cond := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue}
	switch {
	case s.waiting:
		cond.Reason, cond.Message = v1alpha1.ReasonWaitingForRollout, "another component rolls out first"
	case s.deployment != nil && rolling(s.deployment):
		cond.Reason, cond.Message = v1alpha1.ReasonRollingOut, "the pod is being replaced or started"
	case inForce != "" && wanted != inForce:
		cond.Reason, cond.Message = v1alpha1.ReasonWaitingForAgent, "a change is on its way to the agent"
	default:
		cond.Status, cond.Reason = metav1.ConditionFalse, v1alpha1.ReasonAsExpected
	}
	return cond
}

// degradedCondition: what went wrong, else what the agent reports and seen, what
// the operator sees of the pod.
func degradedCondition(err error, a *v1alpha1.AgentStatus, seen []v1alpha1.AgentProblem) metav1.Condition {
	cond := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected}
	list := seen
	if a != nil {
		list = slices.Concat(a.Problems, seen)
	}
	switch {
	case err != nil:
		cond.Status = metav1.ConditionTrue
		cond.Reason, cond.Message = outcome.Describe(err)
	case len(list) > 0:
		cond.Status = metav1.ConditionTrue
		cond.Reason, cond.Message = problems(list)
	}
	return cond
}

// linkProblem compares the MTU that the NetworkAttachmentDefinition names, which
// the workers of the VLAN are told and given, with that of the pod's own link: where
// they differ, what is longer than the smaller one is lost without a word.
func linkProblem(s seen) []v1alpha1.AgentProblem {
	pod := live(s.pods)
	if s.nadMTU == 0 || pod == nil {
		return nil
	}
	has, _ := attached(pod, s.serverIP)
	if has.MTU == 0 || has.MTU == s.nadMTU {
		return nil
	}
	return []v1alpha1.AgentProblem{{
		Reason:  v1alpha1.ReasonMTUMismatch,
		Message: fmt.Sprintf("NetworkAttachmentDefinition %s says MTU %d, but the pod's link on it has %d", s.nad, s.nadMTU, has.MTU),
	}}
}

// agentReasons are the problems that have a reason of their own.
var agentReasons = []string{
	v1alpha1.ReasonConfigRejected, v1alpha1.ReasonForwardingEnabled, v1alpha1.ReasonNoVLANRoute, v1alpha1.ReasonMTUMismatch,
}

// maxProblems is the length of all that an agent reports, in one condition.
const maxProblems = 4000

// problems puts an agent's problems into one condition: under its own reason
// if there is one reason that users know, and in the agent's words.
func problems(list []v1alpha1.AgentProblem) (reason, message string) {
	reason = v1alpha1.ReasonAgentProblem
	if slices.Contains(agentReasons, list[0].Reason) {
		reason = list[0].Reason
	}
	var words []string
	for _, p := range list {
		words = append(words, p.Reason+": "+p.Message)
	}
	return reason, outcome.Cut(strings.Join(words, "; "), maxProblems)
}

func problem(a *v1alpha1.AgentStatus, reason string) string {
	for _, p := range a.Problems {
		if p.Reason == reason {
			return p.Message
		}
	}
	return ""
}

// sameAgent compares what the conditions are made from.
func sameAgent(a, b *v1alpha1.AgentStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Contract == b.Contract && a.ModuleVersion == b.ModuleVersion && slices.Equal(a.Problems, b.Problems)
}
