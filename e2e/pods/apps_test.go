package pods

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// guest is the inside of a hosted cluster, as an administrator on its worker
// sees it: through the VLAN's own DNS and proxy.
type guest struct {
	*lab
	vm      *node.VM
	cluster *hostedCluster
	config  string
}

func (l *lab) guest(t *testing.T, vm *node.VM, cluster *hostedCluster) *guest {
	t.Helper()
	a := cluster.authority
	require.NoError(t, a.Sign("guest", pkix.Name{CommonName: "guest", Organization: []string{"system:masters"}}))
	require.NoError(t, a.Kubeconfig("guest", "https://api."+cluster.domain()+":6443"))
	return &guest{l, vm, cluster, a.Path("guest.kubeconfig")}
}

func (g *guest) kubectl(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--kubeconfig", g.config, "--cache-dir", filepath.Join(g.Dir(), "guest-cache-"+g.cluster.Name)}, args...)
	return g.vm.Output(ctx, filepath.Join(g.tools, "kubectl"), args...)
}

// apply applies a text, or the files of a directory.
func (g *guest) apply(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	g.applyFile(t, file)
}

func (g *guest) applyFile(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, "the hosted cluster to take "+filepath.Base(file), func(ctx context.Context) error {
		_, err := g.kubectl(ctx, "apply", "--server-side", "-f", file)
		return err
	}))
}

// checkApps brings *.apps of a hosted cluster to the VLAN by the operator's own
// flow (behaviours G1 to G5). MetalLB's controller and speaker are the real
// ones, and so is kube-proxy on the worker; the test stands in for OLM (it
// serves MetalLB's kinds once there is a Subscription), for metallb-operator (it
// starts the two programs from the MetalLB object) and for the worker's kubelet.
func (l *lab) checkApps(t *testing.T, vm, neighbour *node.VM, cluster *hostedCluster) {
	g := l.guest(t, vm, cluster)
	require.NoError(t, l.Apply(t.Context(), render(t, "kaspolicy.yaml", cluster)))
	g.declare(t, true)
	l.phase(t, cluster, "Pending/WaitingForHostedClusterNodes")
	g.install(t)
	l.phase(t, cluster, "Pending/WaitingForExternalIP")
	g.startMetalLB(t)
	l.phase(t, cluster, "Ready/ReconciliationSucceeded")
	l.expect(t, "infraclusterattachment/"+cluster.Name, "Ready", "True")
	g.checkAppsTraffic(t, neighbour)
	g.declare(t, false)
	g.checkAppsGone(t, neighbour)
}

// declare switches *.apps of the attachment on or off.
func (g *guest) declare(t *testing.T, enabled bool) {
	t.Helper()
	_, err := g.Kubectl(t.Context(), "patch", "-n", "clusters", "infraclusterattachment", g.cluster.Name, "--type=merge", "-p", fmt.Sprintf(
		`{"spec":{"appsIngress":{"enabled":%t,"metallb":{"addressPoolName":"apps","ipAddressPoolRange":%q}}}}`, enabled, g.cluster.Pool))
	require.NoError(t, err)
}

// phase waits for a phase and its reason.
func (l *lab) phase(t *testing.T, cluster *hostedCluster, want string) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, "*.apps of "+cluster.Name+" to be "+want, func(ctx context.Context) error {
		out, err := l.Kubectl(ctx, "get", "-n", "clusters", "infraclusterattachment", cluster.Name, "-o",
			"jsonpath={.status.appsIngressStatus.phase}/{.status.appsIngressStatus.reason}: {.status.appsIngressStatus.message}")
		if err == nil && !strings.HasPrefix(out, want+":") {
			err = errors.New(out)
		}
		return err
	}))
	l.progress.Say("*.apps of %s is %s", cluster.Name, want)
}

// install is OLM's part, and the worker's kubelet's.
func (g *guest) install(t *testing.T) {
	t.Helper()
	olm := moduleDir(t, "opm", "github.com/operator-framework/api")
	for _, kind := range []string{"catalogsources", "clusterserviceversions", "installplans", "operatorgroups", "subscriptions"} {
		g.applyFile(t, filepath.Join(olm, "crds/operators.coreos.com_"+kind+".yaml"))
	}
	address, err := g.vm.Script(t.Context(), `ip -4 -o addr show eth0 | awk '{sub("/.*", "", $4); print $4}'`)
	require.NoError(t, err)
	node1 := g.cluster.Name + "-worker"
	g.apply(t, fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s}\n", node1))
	g.apply(t, render(t, "hostedapps.yaml", map[string]string{"Node": node1, "Address": strings.TrimSpace(address)}))
	_, err = g.kubectl(t.Context(), "patch", "node", node1, "--subresource=status", "--type=merge", "-p",
		`{"status":{"addresses":[{"type":"InternalIP","address":"`+strings.TrimSpace(address)+`"}],
		"conditions":[{"type":"Ready","status":"True","reason":"Standin","message":"stands in for a kubelet"}]}}`)
	require.NoError(t, err)
	_, err = g.kubectl(t.Context(), "patch", "node", node1, "--type=merge", "-p", `{"spec":{"taints":null}}`)
	require.NoError(t, err)
	g.await(t, "a Subscription", "get", "subscription", "-n", "openshift-operators", "metallb-operator")
	metallb := moduleDir(t, "metallb", "go.universe.tf/metallb")
	g.applyFile(t, filepath.Join(metallb, "config/crd/bases"))
	g.applyFile(t, filepath.Join(g.root, "operator/internal/testenv/crds/metallbs.yaml"))
}

// startMetalLB is metallb-operator's part: it runs the programs with the class
// that the MetalLB object names.
func (g *guest) startMetalLB(t *testing.T) {
	t.Helper()
	class := g.await(t, "a MetalLB", "get", "metallb", "-n", "openshift-operators", "metallb", "-o", "jsonpath={.spec.loadBalancerClass}")
	worker := g.cluster.Name + "-worker"
	environment := []string{"KUBECONFIG=" + g.config, "METALLB_NAMESPACE=openshift-operators", "METALLB_NODE_NAME=" + worker}
	for name, argv := range map[string][]string{
		"metallb-controller": {"METALLB_POD_NAME=controller-1", filepath.Join(g.tools, "metallb-controller"), "--webhook-mode=disabled", "--port=0", "--health-probe-port=17473", "--lb-class=" + class},
		"metallb-speaker":    {"METALLB_POD_NAME=speaker-1", filepath.Join(g.tools, "metallb-speaker"), "--port=0", "--lb-class=" + class},
		"guest-kube-proxy": {
			filepath.Join(g.tools, "kube-proxy"), "--kubeconfig=" + g.config, "--hostname-override=" + worker, "--proxy-mode=nftables",
			"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s", "--oom-score-adj=0",
		},
		"router": {g.standin, "serve", "tls:8443:" + g.cluster.Name + "/apps", "http:8080:" + g.cluster.Name + "/apps"},
	} {
		_, err := g.vm.Daemon(name, append(append([]string{"env"}, environment...), argv...)...)
		require.NoError(t, err)
	}
}

// await repeats a query of the hosted cluster until it succeeds.
func (g *guest) await(t *testing.T, what string, args ...string) string {
	t.Helper()
	var out string
	require.NoError(t, node.Wait(t.Context(), patience, what, func(ctx context.Context) (err error) {
		out, err = g.kubectl(ctx, args...)
		return err
	}))
	return out
}

// checkAppsTraffic reaches the hosted cluster's router from another VM: by the
// name that DNS gives, at the address that the speaker announces, and through
// the proxy, by TLS and by HTTP.
func (g *guest) checkAppsTraffic(t *testing.T, neighbour *node.VM) {
	t.Helper()
	console, want := "console.apps."+g.cluster.domain(), g.cluster.Name+"/apps"
	require.NoError(t, node.Wait(t.Context(), patience, console+" on the VLAN", g.resolves(neighbour, console, g.cluster.vip())))
	for what, address := range map[string]string{"at its own address": g.cluster.vip(), "through the proxy": proxyIP} {
		require.NoError(t, node.Wait(t.Context(), patience, console+" "+what, func(ctx context.Context) error {
			got, err := neighbour.Output(ctx, g.standin, "tls", address+":443", console)
			if err == nil && strings.TrimSpace(got) != want {
				err = fmt.Errorf("landed on %q", got)
			}
			if err != nil {
				return err
			}
			got, err = neighbour.Output(ctx, "curl", "-sf", "-m", "3", "-H", "Host: "+console, "http://"+address+"/")
			if err == nil && !strings.HasPrefix(got, want+" ") {
				err = fmt.Errorf("port 80 answers %q", got)
			}
			return err
		}))
		g.progress.Say("a neighbour reaches %s %s", console, what)
	}
	dns, proxy := g.clusterIP(t, g.namespace, "tenant-vlan100-dns"), g.clusterIP(t, g.namespace, "tenant-vlan100-proxy")
	out, err := g.nodeOf(t, "standin").Script(t.Context(), `nsenter -t "$(pgrep -ox standin)" --net dig +short +time=5 +tries=3 "@$SERVER" "$NAME" A`,
		"SERVER="+dns, "NAME="+console)
	require.NoError(t, err)
	require.Equal(t, proxy, strings.TrimSpace(out))
	got, err := g.Kubectl(t.Context(), "exec", "-n", "bystander", "bystander", "--", "/standin", "tls", proxy+":443", console)
	require.NoError(t, err)
	require.Equal(t, want, strings.TrimSpace(got), "from a pod, through the ClusterIP")
}

// checkAppsGone: what was made is removed, and the name is the world's again.
func (g *guest) checkAppsGone(t *testing.T, neighbour *node.VM) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, "the objects of *.apps to go", func(ctx context.Context) error {
		out, err := g.kubectl(ctx, "get", "-A", "-o", "name", "-l", "app.kubernetes.io/managed-by=oooi", appsKinds)
		if err == nil && strings.TrimSpace(out) != "" {
			err = errors.New("left: " + out)
		}
		return err
	}))
	name := "console.apps." + g.cluster.domain()
	require.NoError(t, node.Wait(t.Context(), patience, name+" to be forwarded", g.resolves(neighbour, name, elsewhere)))
	g.progress.Say("*.apps of %s is gone", g.cluster.Name)
}

// checkNothingInside looks into the hosted cluster from the node that runs its API
// server, for the VLAN leads there no more: no object of *.apps is ours.
func (g *guest) checkNothingInside(t *testing.T) {
	t.Helper()
	server := "https://" + g.podIP(t, g.cluster.namespace(), "app=kube-apiserver").String() + ":6443"
	out, err := g.Nodes[0].Output(t.Context(), filepath.Join(g.tools, "kubectl"), "--kubeconfig", g.config, "--server", server, "--tls-server-name", "kube-apiserver",
		"--cache-dir", filepath.Join(g.Dir(), "inside-cache"), "get", "-A", "-o", "yaml", "namespaces,"+appsKinds)
	require.NoError(t, err)
	require.Contains(t, out, "openshift-operators", "somebody who answers")
	require.NotContains(t, out, "oooi")
	require.NotContains(t, out, "densityops")
}

// appsKinds are what oooi makes for *.apps in a hosted cluster.
const appsKinds = "services,ipaddresspools.metallb.io,l2advertisements.metallb.io,metallbs.metallb.io,subscriptions.operators.coreos.com"

// moduleDir is where a module of a tools module lies in the cache.
func moduleDir(t *testing.T, tool, module string) string {
	t.Helper()
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = filepath.Join("../tools", tool)
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	run("mod", "download", module)
	return run("list", "-m", "-f", "{{.Dir}}", module)
}
