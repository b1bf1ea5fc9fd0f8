package pods

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// keep saves what a person wants to see after a failure, in one folder: the logs
// of every program and the packets of the VLAN, all our resources and those that
// they are about, Envoy's configuration, and the leases as clients and server
// know them. What cannot be had is named in missing.txt.
func (l *lab) keep(ctx context.Context, dir string) {
	_ = os.RemoveAll(dir)
	k := &keeper{dir: dir}
	k.result("log", os.CopyFS(filepath.Join(dir, "log"), os.DirFS(filepath.Join(l.Dir(), "log"))))
	for file, args := range map[string][]string{
		"resources.yaml": {"get", "infras,infraclusterattachments,dhcpservers,dnsservers,proxyservers", "-A", "-o", "yaml"},
		"objects.yaml": {
			"get", "nodes,pods,deployments,services,endpointslices,configmaps,networkpolicies,leases", "-A", "-o", "yaml",
		},
		"hosted.yaml":  {"get", "hostedclusters,hostedcontrolplanes,nodepools,machines.cluster.x-k8s.io,vms,vmis", "-A", "-o", "yaml"},
		"olm.yaml":     {"get", "catalogsources,subscriptions,installplans,clusterserviceversions", "-A", "-o", "yaml"},
		"overview.txt": {"get", "nodes,pods", "-A", "-o", "wide"},
		"events.txt":   {"get", "events", "-A", "--sort-by=.lastTimestamp"},
	} {
		out, err := l.Kubectl(ctx, args...)
		k.file(file, out, err)
	}
	l.keepPodLogs(ctx, k)
	for _, box := range l.Nodes {
		out, err := box.Script(ctx, `curl -sf --unix-socket "/proc/$(pgrep -ox envoy)/root/run/oooi/admin.sock" http://envoy/config_dump`)
		k.file("envoy-config-"+box.Name+".json", out, err)
	}
	l.keepLeases(k)
	k.file("missing.txt", strings.Join(k.missing, "\n"), nil)
	l.progress.Say("logs, resources, leases and packets are kept in %s", dir)
}

func (l *lab) keepPodLogs(ctx context.Context, k *keeper) {
	for _, ns := range []string{l.namespace, "oooi-system", "bystander"} {
		pods, err := l.Kubectl(ctx, "get", "pods", "-n", ns, "-o", "name")
		k.result("pods of "+ns, err)
		for pod := range strings.FieldsSeq(pods) {
			out, err := l.Kubectl(ctx, "logs", "-n", ns, pod, "--all-containers", "--prefix", "--tail=-1")
			k.file("pods/"+ns+"-"+filepath.Base(pod)+".log", out, err)
			// The container before, where there was one.
			if out, err := l.Kubectl(ctx, "logs", "-n", ns, pod, "--all-containers", "--prefix", "--tail=-1", "--previous"); err == nil {
				k.file("pods/"+ns+"-"+filepath.Base(pod)+".previous.log", out, nil)
			}
		}
	}
}

// keepLeases copies what the VMs' clients were told and what the DHCP servers
// have on disk.
func (l *lab) keepLeases(k *keeper) {
	for _, pattern := range []string{"*/lease", "*/lease.history", "*/kubelet/pods/*/volumes/kubernetes.io~empty-dir/state/*"} {
		found, err := filepath.Glob(filepath.Join(l.Dir(), pattern))
		k.result(pattern, err)
		for _, file := range found {
			raw, err := os.ReadFile(file)
			name, _ := filepath.Rel(l.Dir(), file)
			k.file("leases/"+strings.ReplaceAll(name, "/", "_"), string(raw), err)
		}
	}
}

// keeper writes files and remembers what it could not have.
type keeper struct {
	dir     string
	missing []string
}

func (k *keeper) result(name string, err error) {
	if err != nil {
		k.missing = append(k.missing, name+": "+err.Error())
	}
}

func (k *keeper) file(name, content string, err error) {
	k.result(name, err)
	if content == "" {
		return
	}
	path := filepath.Join(k.dir, name)
	k.result(name, os.MkdirAll(filepath.Dir(path), 0o755))
	k.result(name, os.WriteFile(path, []byte(content), 0o644))
}
