package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/outcome"
)

// hangsAfter is how long past its grace period a pod counts as hanging.
const hangsAfter = 30 * time.Second

// clearHanging force-deletes a pod that hangs Terminating once its successor is
// Ready: under Recreate the next change of the template would otherwise stop
// the service and wait for the dead node (behaviour B4).
func (c *Controller[T]) clearHanging(ctx context.Context, pods []corev1.Pod) error {
	if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && ready(&p) }) {
		return nil
	}
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp == nil || c.Clock().Before(p.DeletionTimestamp.Add(hangsAfter)) {
			continue
		}
		uid := p.UID
		err := c.Client.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the pod that hangs on %s: %w", p.Spec.NodeName, err)
		}
	}
	return nil
}

func hanging(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// live gives the newest pod that is not on its way out.
func live(pods []corev1.Pod) *corev1.Pod {
	var newest *corev1.Pod
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&p.CreationTimestamp) {
			newest = p
		}
	}
	return newest
}

const networkStatus = "k8s.v1.cni.cncf.io/network-status"

// network is one network of a pod in its network-status.
type network struct {
	IPs []string `json:"ips"`
	// MTU of the pod's link; 0 where Multus does not tell.
	MTU int `json:"mtu"`
}

// attached gives the network that has the address in the pod's network-status, an
// empty one if none has; known is false while there is no network-status yet.
func attached(p *corev1.Pod, serverIP string) (has network, known bool) {
	text, ok := p.Annotations[networkStatus]
	if !ok {
		return network{}, false
	}
	var networks []network
	if err := json.Unmarshal([]byte(text), &networks); err != nil {
		return network{}, true
	}
	for _, n := range networks {
		for _, ip := range n.IPs {
			if address, _, _ := strings.Cut(ip, "/"); address == serverIP {
				return n, true
			}
		}
	}
	return network{}, true
}

// podProblem says in words what keeps the pod from running, "" for nothing
// that is known. Names that a server made up and numbers that grow are left out.
func podProblem(d *appsv1.Deployment, pods []corev1.Pod) string {
	for _, cond := range d.Status.Conditions {
		if cond.Type == appsv1.DeploymentReplicaFailure && cond.Status == corev1.ConditionTrue {
			return "no pod can be made: " + steady(cond.Message, d.Name)
		}
	}
	p := live(pods)
	if p == nil {
		return ""
	}
	if p.Status.Phase == corev1.PodFailed {
		return "the pod failed: " + steady(strings.Trim(p.Status.Reason+": "+p.Status.Message, ": "), d.Name)
	}
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			return "the pod cannot be scheduled: " + steady(cond.Message, d.Name)
		}
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if words := containerProblem(s); words != "" {
			return fmt.Sprintf("container %s: %s", s.Name, steady(words, d.Name))
		}
	}
	return ""
}

func containerProblem(s corev1.ContainerStatus) string {
	w := s.State.Waiting
	if w == nil {
		return ""
	}
	switch w.Reason {
	case "", "PodInitializing", "ContainerCreating":
		return ""
	case "CrashLoopBackOff":
		if t := s.LastTerminationState.Terminated; t != nil {
			return fmt.Sprintf("it ends again and again, the last time with exit code %d (%s)", t.ExitCode, t.Reason)
		}
		return "it ends again and again"
	case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull":
		return fmt.Sprintf("image %s cannot be pulled (%s)", s.Image, w.Reason)
	}
	return w.Reason + ": " + w.Message
}

var generated = regexp.MustCompile(`\b[0-9a-f]{12,}\b|\([0-9a-f-]{36}\)`)

// steady takes out what differs from pod to pod.
func steady(s, deployment string) string {
	pod := regexp.MustCompile(regexp.QuoteMeta(deployment) + `-[a-z0-9]{5,10}(-[a-z0-9]{5})?-?`)
	s = pod.ReplaceAllString(s, deployment)
	return outcome.Message(strings.TrimSpace(generated.ReplaceAllString(s, "...")))
}

// +kubebuilder:rbac:groups="",resources=events,verbs=list

// sandboxProblem asks the events of a pod that does not get started for the
// reason: a network that cannot be attached shows nowhere else.
func sandboxProblem(ctx context.Context, live client.Reader, p *corev1.Pod, deployment string) (string, error) {
	var events corev1.EventList
	err := live.List(ctx, &events, client.InNamespace(p.Namespace), client.MatchingFields{"involvedObject.uid": string(p.UID)})
	if err != nil {
		return "", fmt.Errorf("reading the events of a pod: %w", err)
	}
	slices.SortFunc(events.Items, func(a, b corev1.Event) int { return b.LastTimestamp.Compare(a.LastTimestamp.Time) })
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && (e.Reason == "FailedCreatePodSandBox" || e.Reason == "FailedMount") {
			return e.Reason + ": " + steady(e.Message, deployment), nil
		}
	}
	return "", nil
}
