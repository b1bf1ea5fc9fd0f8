package pods

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
	"github.com/densityops/oooi/e2e/packaging"
)

// TestCluster is the whole product on a real cluster of two nodes. OLM installs
// it from a catalog, as a user has it; then an Infra and two attachments serve
// the VMs of two hosted clusters through all that happens to them. The parts
// named "comes up" are what "make e2e-up" leaves for a person.
func TestCluster(t *testing.T) {
	t.Parallel()
	l := newLab(t, "cluster", 2)
	l.namespace, l.proxyPorts, l.a, l.b = "clusters", "443 6443", "example-hcp-a", "example-hcp-b"
	a := l.newHosted(t, l.a, macA, "192.0.2.200-192.0.2.209")
	b := l.newHosted(t, l.b, macB, "192.0.2.210-192.0.2.219")
	var now, next packaging.Table
	l.together(t, "comes up", map[string]func(*testing.T){
		"from a catalog, by OLM": func(t *testing.T) {
			now, next = l.serveImages(t)
			l.startOLM(t, now, next)
			l.approve(t, packaging.CSVName(now.Version))
			l.rollout(t, "oooi-system", "oooi-operator")
			l.checkOperatorStarts(t)
		},
		"among two hosted clusters": func(t *testing.T) {
			l.deployWorld(t, a, b)
			l.checkPolicyIsEnforced(t)
		},
	})
	var vmA, vmB, intruder *node.VM
	l.step(t, "comes up for an Infra and two attachments", func(t *testing.T) {
		l.attach(t, a, b)
		vmA, vmB = l.worker(t, a), l.worker(t, b)
		intruder = l.stranger(t, "intruder", "02:00:5e:10:00:66")
		l.checkImages(t, now)
	})
	l.checkService(t, vmA, vmB, intruder, a, b)
	l.checkChanges(t, vmA, vmB, b, next)
	l.checkLosses(t, vmA, vmB, intruder, a, b)
	l.step(t, "uninstall leaves nothing", func(t *testing.T) { l.checkUninstall(t, vmA, a, b) })
	l.step(t, "nor does a kustomization", func(t *testing.T) { l.checkKustomization(t, now, a) })
}

// checkService looks at what runs, from every side.
func (l *lab) checkService(t *testing.T, vmA, vmB, intruder *node.VM, a, b *hostedCluster) {
	t.Helper()
	l.together(t, "serves two clusters", map[string]func(*testing.T){
		"every name in both views":               func(t *testing.T) { l.checkViews(t, vmA, vmB, a, b) },
		"TLS lands on the right control plane":   func(t *testing.T) { l.checkRoutes(t, vmA, vmB) },
		"no way into the other's control plane":  func(t *testing.T) { l.checkNoWayAcross(t, vmA, vmB) },
		"an address that only a Machine names":   func(t *testing.T) { l.checkMachineAddress(t, a) },
		"pods see the pod view":                  func(t *testing.T) { l.checkPodSide(t) },
		"only the proxy reaches a control plane": func(t *testing.T) { l.checkPolicy(t, vmA, a); l.checkPolicy(t, vmB, b) },
		"processes have few rights":              func(t *testing.T) { l.checkRights(t) },
		"sockets are bound to one side":          func(t *testing.T) { l.checkSockets(t) },
		"nothing is reached through a server":    func(t *testing.T) { l.checkCrossing(t, intruder) },
		"scorecard passes":                       func(t *testing.T) { l.checkScorecard(t) },
	})
	l.together(t, "apps are served", map[string]func(*testing.T){
		"*.apps of A comes and goes": func(t *testing.T) { l.checkApps(t, vmA, vmB, a) },
		"*.apps of B comes and goes": func(t *testing.T) { l.checkApps(t, vmB, vmA, b) },
	})
}

// checkChanges does what an administrator does.
func (l *lab) checkChanges(t *testing.T, vmA, vmB *node.VM, b *hostedCluster, next packaging.Table) {
	t.Helper()
	l.step(t, "the catalog upgrades the operator", func(t *testing.T) { l.checkUpgrade(t, vmA, vmB, next) })
	l.step(t, "an attachment goes and comes", func(t *testing.T) { l.checkAttachmentChange(t, vmA, vmB, b) })
	l.step(t, "an image is named in the Infra", func(t *testing.T) { l.checkOverrideInInfra(t, vmA, vmB) })
	l.step(t, "an image is named in the Subscription", func(t *testing.T) { l.checkOverride(t, vmB) })
	l.step(t, "a proxy that is told to go drains", func(t *testing.T) { l.checkDrain(t, vmA) })
}

// checkLosses takes away what may be missing in the field. A kubelet that loses its
// API server asks again later each time, up to a minute, until it has had two minutes
// of quiet: so the outage of all comes last. What asks that no pod is restarted comes
// before what kills some.
func (l *lab) checkLosses(t *testing.T, vmA, vmB, intruder *node.VM, a, b *hostedCluster) {
	t.Helper()
	l.step(t, "a kubelet and its runtime are paused", func(t *testing.T) { l.checkNodePaused(t, vmA, vmB, a) })
	l.step(t, "a node is cut off and mended", func(t *testing.T) { l.checkNodeCut(t, vmA, vmB, a) })
	l.step(t, "a node is lost", func(t *testing.T) { l.checkNodeLost(t, vmA, intruder, a) })
	l.step(t, "KubeVirt goes and comes", func(t *testing.T) { l.checkKindsGo(t, vmA, a, b) })
	l.step(t, "what is killed comes back", func(t *testing.T) {
		l.checkOperatorKilled(t, vmA, vmB)
		l.checkKills(t, vmA, vmB)
	})
	l.step(t, "the API server is away for longer than a lease", func(t *testing.T) { l.checkOutage(t, vmA, vmB, intruder) })
}

// stranger is a VM that no hosted cluster knows, with an address of the VLAN.
func (l *lab) stranger(t *testing.T, name, mac string) *node.VM {
	t.Helper()
	vm, err := l.VM(t.Context(), name, mac)
	require.NoError(t, err)
	lease, err := vm.Boot(t.Context())
	require.NoError(t, err)
	l.progress.Say("%s leased %s", name, lease["ip"])
	return vm
}

// deployWorld brings up all that is there before oooi.
func (l *lab) deployWorld(t *testing.T, clusters ...*hostedCluster) {
	t.Helper()
	l.applyCRDs(t)
	clusterDNS := testdata(t, "clusterdns.yaml")
	l.loadImages(t, clusterDNS, testdata(t, "hosted.yaml"))
	require.NoError(t, l.Apply(t.Context(), clusterDNS))
	require.NoError(t, l.Apply(t.Context(), testdata(t, "clusters.yaml")))
	require.NoError(t, l.Apply(t.Context(), testdata(t, "hub.yaml")))
	for _, cluster := range clusters {
		l.startHosted(t, cluster)
	}
	require.NoError(t, l.Apply(t.Context(), testdata(t, "passerby.yaml")))
	l.deployBystanders(t)
	l.rollout(t, "kube-system", "clusterdns")
	for _, cluster := range clusters {
		l.rollout(t, cluster.namespace(), "kube-apiserver")
		l.rollout(t, cluster.namespace(), "endpoints")
	}
	_, err := l.Kubectl(t.Context(), "wait", "pod", "-n", "clusters", "passer-by", "--for=condition=Ready", "--timeout=3m")
	require.NoError(t, err)
}

// checkPolicyIsEnforced makes sure that a NetworkPolicy means something here,
// before one of ours is judged by it.
func (l *lab) checkPolicyIsEnforced(t *testing.T) {
	t.Helper()
	require.NoError(t, l.Apply(t.Context(), testdata(t, "policy.yaml")))
	_, err := l.Kubectl(t.Context(), "wait", "pod", "-n", "policy", "--all", "--for=condition=Ready", "--timeout=3m")
	require.NoError(t, err)
	for _, server := range []string{"server1", "server2"} {
		address, err := l.Kubectl(t.Context(), "get", "pod", "-n", "policy", server, "-o", "jsonpath={.status.podIP}")
		require.NoError(t, err)
		l.reachable(t, "policy", "refused", address+":6443", refused)
		l.reachable(t, "policy", "allowed", address+":6443", "server")
	}
	l.progress.Say("NetworkPolicy is enforced")
}

// refused is what a pod sees that a NetworkPolicy keeps out: kube-router answers,
// as the kernel does where nobody listens.
const refused = "refused"

// reachable waits until a pod that asks a TLS server sees what it should: the
// server's name, or how it came to none.
func (l *lab) reachable(t *testing.T, ns, pod, target, want string) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, ns+"/"+pod+" and "+target, func(ctx context.Context) error {
		got, err := l.Kubectl(ctx, "exec", "-n", ns, pod, "--", "/standin", "tls", target)
		if err == nil && strings.TrimSpace(got) != want {
			err = fmt.Errorf("it sees %q, not %q", got, want)
		}
		return err
	}))
}
