package app_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/app"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// podArgs holds the flags of an operator that this binary is to be, as in a pod.
const podArgs = "OOOI_TEST_POD_ARGS"

// runAsPod runs the operator where a pod's ServiceAccount says its namespace: in a
// mount namespace of its own.
func runAsPod(args []string) int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fail(err)
	}
	run, err := filepath.EvalSymlinks("/var/run")
	if err != nil {
		return fail(err)
	}
	if err := syscall.Mount("tmpfs", run, "tmpfs", 0, ""); err != nil {
		return fail(err)
	}
	account := filepath.Join(run, "secrets/kubernetes.io/serviceaccount")
	if err := os.MkdirAll(account, 0o755); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(filepath.Join(account, "namespace"), []byte(testenv.Namespace), 0o600); err != nil {
		return fail(err)
	}
	options, err := app.ParseOptions(args, os.LookupEnv, os.Stdout, os.Stderr)
	if err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := app.Run(ctx, options); err != nil {
		return fail(err)
	}
	return 0
}

// replica of the operator in a process of its own, and its pod.
type replica struct {
	*apart
	pod *corev1.Pod
}

func startReplica(t *testing.T, name string) *replica {
	t.Helper()
	shipped := get(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: "oooi-operator"}})
	r := &replica{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: name}, Spec: shipped.Spec.Template.Spec}}
	require.Contains(t, r.pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"},
	}}, "the leader's lock is the pod's")
	env.Must(t, r.pod)
	t.Cleanup(func() { r.die(t) })
	r.apart = startApart(t, env, []string{"POD_NAME=" + name, "OPERATOR_CONDITION_NAME=oooi.v0.1.0"}, "--leader-elect=life")
	r.isReady(t)
	return r
}

// die ends the process in the middle of whatever it does, and its pod with it.
func (r *replica) die(t *testing.T) {
	t.Helper()
	if r.apart != nil {
		r.kill()
	}
	err := env.Client.Delete(context.WithoutCancel(t.Context()), r.pod, client.GracePeriodSeconds(0))
	require.NoError(t, client.IgnoreNotFound(err))
}

// leads waits until a pod holds the lock.
func leads(t *testing.T, pod string) {
	t.Helper()
	testenv.Eventually(t, 2*patience, func() error {
		lock := &corev1.ConfigMap{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: testenv.Namespace, Name: "oooi-operator"}, lock); err != nil {
			return err
		}
		if len(lock.OwnerReferences) != 1 || lock.OwnerReferences[0].Name != pod {
			return fmt.Errorf("the lock is held by %+v", lock.OwnerReferences)
		}
		return nil
	})
}

// upgradeable waits for what OLM is told.
func upgradeable(t *testing.T, condition *operatorsv2.OperatorCondition, status metav1.ConditionStatus, reason string) {
	t.Helper()
	testenv.Eventually(t, 2*patience, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(condition), condition); err != nil {
			return err
		}
		c := meta.FindStatusCondition(condition.Spec.Conditions, operatorsv2.Upgradeable)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("Upgradeable is %+v", c)
		}
		return nil
	})
}

// hazards 214, 226, 228: with operator-lib's leader for life one replica leads
// until its pod is gone, the other one answers its probes meanwhile and goes on
// from what the first has left in mid-work; OLM is told when not to upgrade, and
// when it may again.
func TestALeaderForLifeAndWhatOLMIsTold(t *testing.T) {
	w := build(t, 27, "chi")
	told := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: "oooi.v0.1.0"}}
	env.Must(t, told)
	t.Cleanup(func() { require.NoError(t, env.Client.Delete(context.WithoutCancel(t.Context()), told)) })
	first := startReplica(t, "operator-first")
	leads(t, "operator-first")
	second := startReplica(t, "operator-second")
	condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	upgradeable(t, told, metav1.ConditionFalse, v1alpha1.ReasonRollingOut)
	leads(t, "operator-first")

	h := testenv.Hosted{Namespace: w.namespace, Name: "psi", Workers: []string{"192.0.27.150"}}
	env.Must(t, h.Objects()...)
	psi := testenv.Attachment(w.namespace, "psi", "vlan")
	env.Must(t, psi)
	first.die(t)
	leads(t, "operator-second")
	condition(t, psi, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	env.Kubelet(t, w.namespace)
	upgradeable(t, told, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	second.die(t)
	testenv.Eventually(t, patience, func() error {
		lock := &corev1.ConfigMap{}
		err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: testenv.Namespace, Name: "oooi-operator"}, lock)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the lock outlives its leader: %w", err)
	})
}
