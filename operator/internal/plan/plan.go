package plan

import (
	"net/netip"
	"slices"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Action says what becomes of a child.
type Action string

// The actions.
const (
	// Apply: the child shall be as planned.
	Apply Action = "Apply"
	// Keep: the child, if there is one, stays as it is.
	Keep Action = "Keep"
	// Delete: the child shall not be.
	Delete Action = "Delete"
)

// Plan is what the shared stack of an Infra shall be.
type Plan struct {
	DHCP  Component[v1alpha1.DHCPServerSpec]
	DNS   Component[v1alpha1.DNSServerSpec]
	Proxy Component[v1alpha1.ProxyServerSpec]
	// Attachments of this Infra, by name.
	Attachments []Verdict
	// Network, InForce and InternalProxyIP go to the status.
	Network         *v1alpha1.NetworkInForce
	InForce         []v1alpha1.AttachmentInForce
	InternalProxyIP netip.Addr
	// Refusal of the whole Infra; nothing of it is provisioned anew.
	Refusal Reason
	// Problems are all that was found wrong, sorted.
	Problems []Problem
}

// Component is one child's part of a Plan.
type Component[Spec any] struct {
	Action Action
	// Spec is set with Apply.
	Spec *Spec
	// Reason says why the Action is not Apply.
	Reason Reason
}

// Verdict is what became of an attachment.
type Verdict struct {
	Key
	// Included: its names and routes are in the Plan.
	Included bool
	// Apps: its *.apps may be provisioned.
	Apps bool
	// Reason says why not, the first one that counts; zero: all is in.
	Reason Reason
	// Sources are the worker addresses that select its control plane.
	Sources []netip.Addr
	// ExternalPort of the proxy's pod, for its external Service; 0: none.
	ExternalPort uint16
}

// Problem is something that a user has to put right.
type Problem struct {
	// Kind, with Key, is the object that it is about.
	Kind string
	Key
	Reason
}

// For computes the Plan.
func For(in Inputs) Plan {
	w := survey(in)
	if w.refusal.Reason != "" {
		return w.refused()
	}
	all := candidates(in)
	for _, c := range all {
		judgeAlone(c, w.networks[c.infra].cidr)
		c.admitted = c.admitted && !w.idle[c.infra]
	}
	limit(all)
	found := collisions(all, w.near)
	settle(found)
	local := slices.DeleteFunc(slices.Clone(all), func(c *candidate) bool { return !w.near(c.infra) })
	leaving := leavingRanges(in, w.near)
	judgeApps(local, w.own, leaving)
	return w.assemble(all, local, found, leaving)
}
