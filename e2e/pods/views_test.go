package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

var aliases = []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}

// elsewhere is what the stand-in of an upstream resolver says of every name.
const elsewhere = "203.0.113.80"

// checkViews asks for every name that oooi answers, by UDP and by TCP, from a VM
// and from a pod: the VLAN's view leads to the proxy on the VLAN, the pods' to
// its ClusterIP (behaviours D1 to D5, D8).
func (l *lab) checkViews(t *testing.T, vmA, vmB *node.VM, clusters ...*hostedCluster) {
	t.Helper()
	dns, proxy := l.clusterIP(t, l.namespace, "tenant-vlan100-dns"), l.clusterIP(t, l.namespace, "tenant-vlan100-proxy")
	want := func(served string) map[string]string {
		names := map[string]string{"www.example.org": elsewhere}
		for _, alias := range aliases {
			names[alias] = served
		}
		for _, cluster := range clusters {
			for _, name := range []string{"api", "api-int", "oauth", "ignition", "konnectivity"} {
				names[name+"."+cluster.domain()] = served
			}
			names["console.apps."+cluster.domain()] = elsewhere // *.apps is off
			names["nobody."+cluster.domain()] = elsewhere
		}
		return names
	}
	workers := map[string]string{}
	for i, vm := range []*node.VM{vmA, vmB} {
		address, err := vm.Script(t.Context(), `ip -4 -o addr show eth0 | awk '{sub("/.*", "", $4); print $4}'`)
		require.NoError(t, err)
		workers[clusters[i].Name+"-worker."+clusters[i].domain()] = strings.TrimSpace(address)
	}
	inside := want(proxyIP)
	maps.Copy(inside, workers)
	for _, vm := range []*node.VM{vmA, vmB} {
		l.lookUp(t, vm.Box, "", dnsIP, inside)
	}
	outside := want(proxy)
	maps.Copy(outside, workers)
	l.lookUp(t, l.nodeOf(t, "standin"), `nsenter -t "$(pgrep -ox standin)" --net`, dns, outside)
	l.progress.Say("%d names are right in both views", len(inside))
}

// lookUp asks a server for many names, behind a prefix of the command, until it
// says of each what it should.
func (l *lab) lookUp(t *testing.T, box *node.Box, prefix, server string, want map[string]string) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), time.Minute, "the names of "+server, func(ctx context.Context) error {
		out, err := box.Script(ctx, `for name in $NAMES; do
			for transport in +notcp +tcp; do
				echo "$name $transport $(`+prefix+` dig +short +time=5 +tries=3 $transport @"$SERVER" "$name" A | grep -v '^;;' | xargs)" &
			done
		done; wait`, "SERVER="+server, "NAMES="+strings.Join(slices.Collect(maps.Keys(want)), " "))
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 2*len(want) {
			return fmt.Errorf("%d answers to %d questions: %s", len(lines), 2*len(want), out)
		}
		var wrong []string
		for _, line := range lines {
			name, answer, _ := strings.Cut(line, " ")
			transport, answer, _ := strings.Cut(answer, " ")
			if answer != want[name] {
				wrong = append(wrong, fmt.Sprintf("it says %q of %s (%s), not %q", answer, name, transport, want[name]))
			}
		}
		if len(wrong) > 0 {
			slices.Sort(wrong)
			return errors.New(strings.Join(wrong, "; "))
		}
		return nil
	}))
}

// checkNoWayAcross tries the ways that lead a VM to its own control plane: by
// alias, by address, without a name, by one that nobody has. None of them ends at
// the other cluster (behaviours E2, E4, E5).
func (l *lab) checkNoWayAcross(t *testing.T, vmA, vmB *node.VM) {
	t.Helper()
	names := append(slices.Clone(aliases), "", "www.example.org", "api.unknown.clusters.example.com", "kubernetes.default.svc.example.com")
	tried := 0
	for own, vm := range map[string]*node.VM{l.a: vmA, l.b: vmB} {
		for _, port := range []string{"443", "6443"} {
			for _, name := range names {
				got, err := vm.Output(t.Context(), l.standin, "tls", proxyIP+":"+port, name)
				tried++
				require.NoError(t, err, "%q on %s from the VM of %s", name, port, own)
				if strings.TrimSpace(got) == "closed" {
					require.False(t, port == "6443" || slices.Contains(aliases, name), "%q on %s from the VM of %s is closed", name, port, own)
					continue
				}
				require.True(t, strings.HasPrefix(got, own+"/"), "%q on %s from the VM of %s ends at %s", name, port, own, got)
			}
		}
	}
	l.progress.Say("none of %d ways leads across", tried)
}

// machineAddress is one that no lease has and no VM reports.
const machineAddress = "192.0.2.60"

// checkMachineAddress has a Machine name its addresses as Cluster API's provider for
// KubeVirt does, one of them unknown until then: what comes from there without a name
// is the cluster's (behaviours E2, F1).
func (l *lab) checkMachineAddress(t *testing.T, cluster *hostedCluster) {
	t.Helper()
	vm, err := l.VM(t.Context(), "still", "02:00:5e:10:00:60")
	require.NoError(t, err)
	require.NoError(t, vm.Run(t.Context(), "ip", "addr", "add", machineAddress+"/24", "dev", "eth0"))
	require.NoError(t, node.Wait(t.Context(), patience, "nobody's machine to be let in nowhere", l.reaches(vm, "", "closed")))
	worker := cluster.Name + "-worker"
	var addresses []string
	for _, address := range []string{machineAddress, "fe80::5eff:fe10:3c", "10.132.0.2", "169.254.0.2"} {
		addresses = append(addresses, `{"type":"InternalIP","address":"`+address+`"}`, `{"type":"ExternalIP","address":"`+address+`"}`)
	}
	_, err = l.Kubectl(t.Context(), "patch", "machines.cluster.x-k8s.io", "-n", cluster.namespace(), worker, "--subresource=status", "--type=merge", "-p",
		`{"status":{"phase":"Running","addresses":[{"type":"Hostname","address":"`+worker+`"},`+strings.Join(addresses, ",")+`,{"type":"InternalDNS","address":"`+worker+`"}]}}`)
	require.NoError(t, err)
	require.NoError(t, node.Wait(t.Context(), patience, "the Machine's address to be let in", l.reaches(vm, "", cluster.Name+"/api")))
	l.progress.Say("an address that only a Machine names leads to %s", cluster.Name)
}
