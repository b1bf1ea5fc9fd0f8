package servertest_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) { os.Exit(testenv.Run(m, &env, false)) }

// behaviours A4, B2: a real API server takes every planned child and every
// rendered object as it stands, with strict field validation and CEL.
func TestServerAcceptsEveryGoldenObject(t *testing.T) {
	require.NoError(t, env.Install(t.Context(), testenv.OpenShift))
	server := client.WithFieldValidation(client.NewDryRunClient(env.Client), metav1.FieldValidationStrict)
	files, err := filepath.Glob(filepath.Join("..", "testdata", "*", "want.*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if filepath.Base(file) == "want.status.yaml" {
			continue
		}
		t.Run(file, func(t *testing.T) {
			for _, u := range objects(t, file) {
				namespaced(t, u.GetNamespace())
				// The owner's UID is the server's to give.
				u.SetOwnerReferences(nil)
				err := server.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("golden"), client.ForceOwnership)
				if file == filepath.Join("..", "testdata", "standalone-children", "want.children.yaml") && u.GetName() == "broken" {
					require.ErrorContains(t, err, "must be an IPv4 network without host bits", "CEL and the planner say the same")
					continue
				}
				require.NoError(t, err, "%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
			}
		})
	}
}

// H4: a real API server takes every reported status.
func TestServerAcceptsEveryGoldenStatus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "*", "in.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			specs := map[string]*unstructured.Unstructured{}
			for _, u := range objects(t, file) {
				specs[u.GetKind()+"/"+u.GetName()] = u
			}
			for _, u := range objects(t, filepath.Join(filepath.Dir(file), "want.status.yaml")) {
				o := specs[u.GetKind()+"/"+u.GetName()].DeepCopy()
				unstructured.RemoveNestedField(o.Object, "status")
				unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
				namespaced(t, o.GetNamespace())
				err := env.Client.Create(t.Context(), o)
				if apierrors.IsInvalid(err) {
					continue // CEL refuses it too
				}
				require.NoError(t, err)
				withTimes(u)
				strict := client.WithFieldValidation(env.Client, metav1.FieldValidationStrict)
				require.NoError(t, strict.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u),
					&client.SubResourceApplyOptions{ApplyOptions: client.ApplyOptions{FieldManager: "golden"}}), "%s %s", u.GetKind(), u.GetName())
				require.NoError(t, env.Client.Delete(t.Context(), o))
			}
		})
	}
}

// withTimes gives conditions the time that golden files leave out.
func withTimes(u *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		c.(map[string]any)["lastTransitionTime"] = "2026-11-30T12:00:00Z"
	}
	_ = unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions")
}

// namespaced makes a namespace.
func namespaced(t *testing.T, name string) {
	t.Helper()
	if name == "" {
		return
	}
	err := env.Client.Create(t.Context(), testenv.NamespaceObject(name))
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
}

func objects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var out []*unstructured.Unstructured
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		if u.Object != nil {
			out = append(out, u)
		}
	}
}
