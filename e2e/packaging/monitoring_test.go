package packaging_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

type podMonitor struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Selector            struct{ MatchLabels map[string]string }
		PodTargetLabels     []string
		PodMetricsEndpoints []struct{ Port, Path string }
	}
}

type container struct {
	Name  string
	Ports []struct {
		Name          string
		ContainerPort int
	}
}

type deployment struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct{ Containers []container }
		}
	}
}

// TestTheMonitorsFindThePods: behaviour C9. Each PodMonitor of the guide selects
// one of the pods that the operator renders, or the operator's own, and each port
// that it names is one port of that pod.
func TestTheMonitorsFindThePods(t *testing.T) {
	t.Parallel()
	pods := append(renderedDeployments(t), documents[deployment](t, read(t, "manifests/default/operator.yaml"))...)
	monitored := map[string]bool{}
	for _, b := range readGuide(t, "monitoring") {
		if b.language != "yaml" {
			continue
		}
		for _, monitor := range documents[podMonitor](t, b.body) {
			if monitor.Kind != "PodMonitor" {
				continue
			}
			var selected []deployment
			for _, pod := range pods {
				if pod.Metadata.Namespace == monitor.Metadata.Namespace && holds(pod.Spec.Template.Metadata.Labels, monitor.Spec.Selector.MatchLabels) {
					selected = append(selected, pod)
				}
			}
			require.Len(t, selected, 1, monitor.Metadata.Name)
			monitored[selected[0].Metadata.Name] = true
			for _, label := range monitor.Spec.PodTargetLabels {
				require.Contains(t, selected[0].Spec.Template.Metadata.Labels, label)
			}
			for _, endpoint := range monitor.Spec.PodMetricsEndpoints {
				require.Len(t, portsNamed(selected[0], endpoint.Port), 1, "%s: port %s", monitor.Metadata.Name, endpoint.Port)
			}
		}
	}
	require.Len(t, monitored, 4, "every pod is monitored: %v", monitored)
}

func portsNamed(d deployment, name string) []int {
	var ports []int
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name {
				ports = append(ports, p.ContainerPort)
			}
		}
	}
	return ports
}

func holds(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// renderedDeployments are what the operator makes of the demo's objects.
func renderedDeployments(t *testing.T) []deployment {
	t.Helper()
	out := t.TempDir()
	render := exec.Command(filepath.Join(root, "bin/operator"), "render", "-f", filepath.Join(root, "e2e/demo/objects"), "-o", out)
	words, err := render.CombinedOutput()
	require.NoError(t, err, string(words))
	raw, err := os.ReadFile(filepath.Join(out, "workloads.yaml"))
	require.NoError(t, err)
	return documents[deployment](t, string(raw))
}

// documents are those of a kind of a YAML stream; the others are read as zero.
func documents[T any](t *testing.T, stream string) []T {
	t.Helper()
	var out []T
	for document := range strings.SplitSeq("\n"+stream, "\n---\n") {
		var one T
		require.NoError(t, yaml.Unmarshal([]byte(document), &one))
		out = append(out, one)
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(raw)
}

var metricName = regexp.MustCompile(`\b(coredns_oooi|oooi_(dhcpd|xds|operator))_[a-z_]+`)

// TestEveryMetricThatADocumentNamesIsThere: behaviour C9, and no metric of ours is
// missing from the README of its module.
func TestEveryMetricThatADocumentNamesIsThere(t *testing.T) {
	t.Parallel()
	sources := map[string]string{
		"operator": sourceOf(t, "operator/internal/metrics"), "dhcpd": sourceOf(t, "dhcpd/internal/metrics"),
		"xds-manager": sourceOf(t, "xds-manager/internal/metrics"), "corednsplugin": qualified(sourceOf(t, "corednsplugin")),
	}
	var all []string
	for _, source := range sources {
		all = append(all, metricName.FindAllString(source, -1)...)
	}
	for _, document := range []string{
		"operator/docs/monitoring.md", "operator/README.md", "dhcpd/README.md", "xds-manager/README.md", "corednsplugin/README.md",
	} {
		for _, name := range metricName.FindAllString(read(t, document), -1) {
			require.Contains(t, all, name, "%s names a metric that is not there", document)
		}
	}
	for module, source := range sources {
		named := metricName.FindAllString(read(t, module+"/README.md"), -1)
		for _, name := range metricName.FindAllString(source, -1) {
			require.Contains(t, named, name, "%s/README.md does not name a metric", module)
		}
	}
}

// sourceOf is the Go code of a folder without its tests.
func sourceOf(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, fs.WalkDir(os.DirFS(filepath.Join(root, dir)), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			out.WriteString(read(t, filepath.Join(dir, path)))
		}
		return err
	}))
	return out.String()
}

var metricField = regexp.MustCompile(`(?m)^\s*Name: +"([a-z_]+)"`)

// qualified are the plugin's metrics, whose namespace and subsystem stand apart.
func qualified(source string) string {
	var names []string
	for _, m := range metricField.FindAllStringSubmatch(source, -1) {
		names = append(names, `"coredns_oooi_`+m[1]+`"`)
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}
