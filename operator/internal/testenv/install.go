package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CRDs are the kinds of others, by the name that a test calls them.
type CRDs string

// The sets of CRDs.
const (
	HyperShift CRDs = "hypershift"
	CAPI       CRDs = "capi"
	KubeVirt   CRDs = "kubevirt"
	Multus     CRDs = "multus"
	OpenShift  CRDs = "openshift"
	OLM        CRDs = "olm"
	// HostedOLM and MetalLB are what a hosted cluster serves; the operator that
	// owns MetalLB's own kind cannot be had as a module, so that one is by hand.
	HostedOLM CRDs = "hosted-olm"
	MetalLB   CRDs = "metallb"
)

// All of them.
func All() []CRDs { return []CRDs{HyperShift, CAPI, KubeVirt, Multus, OpenShift, OLM} }

// files of a set: in the module cache, where they are the real ones.
func files(set CRDs) ([]string, error) {
	module := func(path string, names ...string) ([]string, error) {
		dir, err := moduleDir(path)
		if err != nil {
			return nil, err
		}
		for i := range names {
			names[i] = filepath.Join(dir, names[i])
		}
		return names, nil
	}
	const gated = "hypershift/v1beta1/zz_generated.featuregated-crd-manifests/"
	switch set {
	case HyperShift:
		return module("github.com/openshift/hypershift/api", gated+"hostedclusters.hypershift.openshift.io/AAA_ungated.yaml",
			gated+"hostedcontrolplanes.hypershift.openshift.io/AAA_ungated.yaml", gated+"nodepools.hypershift.openshift.io/AAA_ungated.yaml")
	case CAPI:
		return []string{filepath.Join(here(), "crds/machines.yaml")}, nil
	case KubeVirt:
		return []string{filepath.Join(here(), "crds/virtualmachineinstances.yaml")}, nil
	case Multus:
		return module("github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml")
	case OpenShift:
		return module("github.com/openshift/api", "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_networks-Default.crd.yaml",
			"config/v1/zz_generated.crd-manifests/0000_03_config-operator_01_proxies.crd.yaml",
			"security/v1/zz_generated.crd-manifests/0000_03_config-operator_01_securitycontextconstraints.crd.yaml")
	case OLM:
		return module("github.com/operator-framework/api", "crds/operators.coreos.com_operatorconditions.yaml")
	}
	return hostedFiles(set, module)
}

// hostedFiles are the sets of hosted clusters.
func hostedFiles(set CRDs, module func(string, ...string) ([]string, error)) ([]string, error) {
	switch set {
	case HostedOLM:
		const olm = "crds/operators.coreos.com_"
		return module("github.com/operator-framework/api", olm+"catalogsources.yaml", olm+"clusterserviceversions.yaml", olm+"installplans.yaml",
			olm+"operatorgroups.yaml", olm+"subscriptions.yaml")
	case MetalLB:
		names, err := module("go.universe.tf/metallb", "config/crd/bases/metallb.io_ipaddresspools.yaml", "config/crd/bases/metallb.io_l2advertisements.yaml")
		return append(names, filepath.Join(here(), "crds/metallbs.yaml")), err
	}
	return nil, fmt.Errorf("no CRDs %q", set)
}

func moduleDir(path string) (string, error) {
	command := exec.CommandContext(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", path)
	command.Dir = here()
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("looking for module %s: %w", path, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Install makes the cluster serve the kinds.
func (e *Env) Install(ctx context.Context, sets ...CRDs) error {
	for _, set := range sets {
		names, err := files(set)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := e.ApplyFiles(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Uninstall takes the kinds away, with every object of them.
func (e *Env) Uninstall(ctx context.Context, sets ...CRDs) error {
	for _, set := range sets {
		names, err := files(set)
		if err != nil {
			return err
		}
		for _, name := range names {
			objects, err := read(name)
			if err != nil {
				return err
			}
			for _, o := range objects {
				if err := e.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("deleting %s: %w", o.GetName(), err)
				}
			}
		}
	}
	return nil
}

// ApplyFiles applies manifests as an administrator, and waits for CRDs to be served.
func (e *Env) ApplyFiles(ctx context.Context, pattern string) error {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no manifests %s", pattern)
	}
	for _, name := range names {
		objects, err := read(name)
		if err != nil {
			return err
		}
		for _, o := range objects {
			err := e.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("administrator"), client.ForceOwnership)
			if err != nil {
				return fmt.Errorf("applying %s: %w", name, err)
			}
			if o.GetKind() == "CustomResourceDefinition" {
				if err := e.established(ctx, o.GetName()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (e *Env) established(ctx context.Context, name string) error {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		if err := e.Client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		// A CRD that was just made has no conditions, or null.
		conditions, _, _ := unstructured.NestedFieldNoCopy(crd.Object, "status", "conditions")
		list, _ := conditions.([]any)
		for _, c := range list {
			if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
}

// featureGate is a line of HyperShift's CRDs that is an annotation without a value.
var featureGate = regexp.MustCompile(`(?m)^.*feature-gate\.release\.openshift\.io/:.*$\n`)

func read(name string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	text = featureGate.ReplaceAll(text, nil)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var out []*unstructured.Unstructured
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if u.GetKind() == "" || u.GetKind() == "Kustomization" {
			continue
		}
		unstructured.RemoveNestedField(u.Object, "status")
		out = append(out, u)
	}
}

// root of the repository: tests run somewhere below it.
func root() string {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "manifests", "crd")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}

func here() string { return filepath.Join(root(), "operator", "internal", "testenv") }
