package facts

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// AnnotationNodePool is what HyperShift writes on the Machines of a NodePool.
const AnnotationNodePool = "hypershift.openshift.io/nodePool"

// maxWorkers is what the attachment's schema takes.
const maxWorkers = 2048

// MachineOf reads a Machine of any served version: the paths are the same in
// all of them.
func MachineOf(u *unstructured.Unstructured) Machine {
	m := Machine{Key: plan.Key{Namespace: u.GetNamespace(), Name: u.GetName()}, Deleting: u.GetDeletionTimestamp() != nil}
	if namespace, name, found := strings.Cut(u.GetAnnotations()[AnnotationNodePool], "/"); found {
		m.NodePool = plan.Key{Namespace: namespace, Name: name}
	}
	// Whoever makes Machines can write anything here, and no object has such a name.
	if vm, _, _ := unstructured.NestedString(u.Object, "spec", "infrastructureRef", "name"); len(validation.IsDNS1123Subdomain(vm)) == 0 {
		m.VM = vm
	}
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "addresses")
	entries, _ := list.([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if text, ok := entry["address"].(string); ok {
			m.Addresses = append(m.Addresses, text)
		}
	}
	return m
}

// workersOf are the machines of the attachment's cluster and their addresses on
// the VLAN (behaviour F1). What cannot be read stays as it was.
func (j *judge) workersOf() (workers []v1alpha1.ObservedWorker, machines []string) {
	before := j.attachment.Status.Observed
	if j.w.Unreadable[KindNodePool] || j.w.Unreadable[KindMachine] {
		return before.Workers, before.Machines
	}
	mine := j.machines()
	for _, m := range mine {
		machines = append(machines, cmp.Or(m.VM, m.Name))
	}
	slices.Sort(machines)
	machines = slices.Compact(machines)
	if !j.cidr.IsValid() {
		return before.Workers, machines
	}
	workers = j.hold(mine, before.Workers)
	if len(workers) > maxWorkers {
		workers = workers[:maxWorkers]
	}
	return workers, machines[:min(len(machines), maxWorkers)]
}

// machines are those of the cluster's KubeVirt NodePools. One that is being
// deleted counts while its VMI is there.
func (j *judge) machines() []Machine {
	pools := map[plan.Key]bool{}
	for i := range j.w.NodePools {
		p := &j.w.NodePools[i]
		kubevirt := p.Spec.Platform.Type == hyperv1.KubevirtPlatform
		if kubevirt && p.Namespace == j.cluster.Namespace && p.Spec.ClusterName == j.cluster.Name {
			pools[plan.Key{Namespace: p.Namespace, Name: p.Name}] = true
		}
	}
	var out []Machine
	for _, m := range j.w.Machines {
		member := m.NodePool == (plan.Key{}) || pools[m.NodePool]
		if m.Namespace == j.controlPlane && len(pools) > 0 && member && !j.gone(m) {
			out = append(out, m)
		}
	}
	return out
}

// gone: the machine is being deleted, and its VMI is no more.
func (j *judge) gone(m Machine) bool {
	return m.Deleting && j.w.VMIs != nil && !j.w.VMIs[plan.Key{Namespace: m.Namespace, Name: cmp.Or(m.VM, m.Name)}]
}

// hold keeps an address that has vanished from its Machine for one lease time,
// while the Machine exists: guest agents flicker.
func (j *judge) hold(mine []Machine, before []v1alpha1.ObservedWorker) []v1alpha1.ObservedWorker {
	type claim struct {
		addr    netip.Addr
		machine string
	}
	exists := map[string]bool{}
	found := map[claim]*metav1.Time{}
	for _, m := range mine {
		exists[m.Name] = true
		for _, text := range m.Addresses {
			if a, ok := addressIn(j.cidr, text); ok {
				found[claim{a, m.Name}] = nil
			}
		}
	}
	for _, w := range before {
		a, err := plan.ParseIPv4(string(w.Address))
		c := claim{a, w.Machine}
		if _, live := found[c]; live || err != nil || !exists[w.Machine] || !j.cidr.Contains(a) {
			continue
		}
		since := j.now
		if w.LastSeen != nil {
			since = w.LastSeen.Time
		}
		left := j.lease - j.now.Sub(since)
		if left <= 0 {
			continue
		}
		j.recheck(left)
		at := metav1.NewTime(since.UTC().Truncate(time.Second))
		found[c] = &at
	}
	var out []v1alpha1.ObservedWorker
	for c, lastSeen := range found {
		out = append(out, v1alpha1.ObservedWorker{Address: v1alpha1.IPv4(c.addr.String()), Machine: c.machine, LastSeen: lastSeen})
	}
	slices.SortFunc(out, func(a, b v1alpha1.ObservedWorker) int {
		x, _ := netip.ParseAddr(string(a.Address))
		y, _ := netip.ParseAddr(string(b.Address))
		return cmp.Or(x.Compare(y), strings.Compare(a.Machine, b.Machine))
	})
	return out
}

// addressIn reads one entry of status.addresses: IPv4 inside the VLAN, in plain
// or prefix form. Names, IPv6 and everything else is no address of ours.
func addressIn(cidr netip.Prefix, text string) (netip.Addr, bool) {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	a, err := netip.ParseAddr(text)
	return a, err == nil && a.Is4() && cidr.Contains(a)
}
