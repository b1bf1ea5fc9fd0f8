package apps

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// How soon to look again where nothing can be watched.
const (
	recheckExternalIP = 15 * time.Second
	recheckInstall    = 15 * time.Second
	recheckFault      = time.Minute
	// recheckAccess, with the time that one call may take, is within the thirty
	// seconds in which a cluster that can be reached again is seen.
	recheckAccess = 15 * time.Second
	// recheckReady notices a change in a hosted cluster, which is not watched.
	recheckReady = time.Minute
)

// Decision is what one pass leads to.
type Decision struct {
	Phase           v1alpha1.AppsPhase
	Reason, Message string
	// Endpoint to publish; the last one where nothing better is known.
	Endpoint Endpoint
	// Apply in this order; the first error ends the pass.
	Apply []Object
	// Remove in this order, before Apply; only with the UID that is named.
	Remove []v1alpha1.AppliedObject
	// After is when to look again.
	After time.Duration
}

// Judge decides about one hosted cluster.
func Judge(w Wanted, o Observed) Decision {
	if w.Refusal.Reason == v1alpha1.ReasonWaitingForInfra {
		return w.pending(w.Refusal.Reason, w.Refusal.Message, recheckInstall)
	}
	if w.Refusal.Reason != "" {
		return w.degraded(w.Refusal.Reason, w.Refusal.Message)
	}
	if o.AccessProblem != "" {
		d := w.degraded(v1alpha1.ReasonHostedClusterAccessFailed, o.AccessProblem)
		d.After = recheckAccess
		return d
	}
	if !o.WorkerReady {
		return w.pending(v1alpha1.ReasonWaitingForHostedClusterNodes,
			"no worker of the hosted cluster is Ready and takes pods", recheckInstall)
	}
	if d, waiting := w.install(o); waiting {
		return d
	}
	return w.serve(o)
}

// install brings MetalLB into the hosted cluster.
func (w Wanted) install(o Observed) (Decision, bool) {
	if o.KindsServed && (len(o.MetalLBs) > 0 || len(o.Subscriptions) > 0) {
		return Decision{}, false
	}
	op := w.Spec.MetalLB.Operator
	if len(o.Subscriptions) == 0 && !o.CatalogSourceFound {
		return w.degraded(v1alpha1.ReasonCatalogSourceMissing, fmt.Sprintf(
			"appsIngress.metallb.operator.source: the hosted cluster has no CatalogSource %s/%s", op.SourceNamespace, op.Source)), true
	}
	d := w.pending(v1alpha1.ReasonWaitingForMetalLBCRDs, "MetalLB's operator is being installed", recheckInstall)
	if len(o.Subscriptions) == 0 {
		d.Apply = []Object{w.subscription()}
		return d, true
	}
	if r, stuck := olmFault(o, string(op.Package)); stuck {
		if r.Reason == v1alpha1.ReasonInstallPlanNeedsApproval {
			return w.pending(r.Reason, r.Message, recheckFault), true
		}
		d := w.degraded(r.Reason, r.Message)
		if r.Reason == v1alpha1.ReasonBundleUnpackFailed {
			d.Remove = leftovers(o)
		}
		return d, true
	}
	if slices.ContainsFunc(o.Subscriptions, func(s Subscription) bool { return s.Ours }) {
		d.Apply = []Object{w.subscription()}
	}
	return d, true
}

// olmFault reads why OLM does not get on.
func olmFault(o Observed, pkg string) (plan.Reason, bool) {
	for _, s := range o.Subscriptions {
		for _, c := range s.Conditions {
			switch {
			case c.Type == "BundleUnpackFailed":
				return plan.Reason{Reason: v1alpha1.ReasonBundleUnpackFailed, Message: c.Message}, true
			case c.Type == "ResolutionFailed":
				return plan.Reason{Reason: v1alpha1.ReasonResolutionFailed, Message: c.Message}, true
			case c.Type == "CatalogSourcesUnhealthy" && strings.Contains(c.Message, "missing"):
				return plan.Reason{Reason: v1alpha1.ReasonCatalogSourceMissing, Message: c.Message}, true
			}
		}
	}
	for _, p := range o.InstallPlans {
		if !slices.ContainsFunc(p.CSVs, func(csv string) bool { return strings.HasPrefix(csv, pkg+".") }) {
			continue
		}
		return plan.Reason{Reason: v1alpha1.ReasonInstallPlanNeedsApproval, Message: fmt.Sprintf(
			"an InstallPlan in namespace %s of the hosted cluster waits for approval of %s", p.Namespace, strings.Join(p.CSVs, ", "))}, true
	}
	return plan.Reason{}, false
}

// serve brings the pool, the advertisement and the Service, and reads the
// endpoint.
func (w Wanted) serve(o Observed) Decision {
	lb, foreign := w.ServingMetalLB(o)
	class := Class
	if foreign {
		class = lb.Class
	}
	if o.ServiceProblem != "" {
		return w.degraded(v1alpha1.ReasonExternalIPDiscoveryFailed, o.ServiceProblem)
	}
	s := o.Service
	if s != nil && !w.owns(s) {
		return w.degraded(v1alpha1.ReasonServiceNotOwned, fmt.Sprintf(
			"Service %s/%s of the hosted cluster exists and was not made by this attachment", w.Spec.Service.Namespace, w.Spec.Service.Name))
	}
	d := w.pending(v1alpha1.ReasonWaitingForExternalIP, "MetalLB has not assigned an address yet", recheckExternalIP)
	d.Remove = w.stale(lb.Namespace)
	if s != nil && s.Class != class {
		// loadBalancerClass cannot change; the address is asked for again.
		d.Remove = append(d.Remove, w.identity(s.UID))
		s = nil
	}
	if !foreign {
		d.Apply = append(d.Apply, w.metalLBObject(lb.Namespace, o.ARPIntervalServed))
	}
	d.Apply = append(d.Apply, w.pool(lb.Namespace), w.advertisement(lb.Namespace), w.service(class))
	if len(o.HubMirrors) > 0 {
		d.Phase, d.Reason, d.After = v1alpha1.AppsPhaseDegraded, v1alpha1.ReasonMirroredByHub, recheckFault
		d.Message = "the management cluster's cloud provider answers the Service too: " + strings.Join(o.HubMirrors, ", ")
		d.Endpoint = w.keepInPool(d.Endpoint)
		return d
	}
	return announced(w.noted(w.endpoint(d, s), lb, foreign, o), o.Speaker)
}

// noted adds what a person should know although *.apps is served.
func (w Wanted) noted(d Decision, lb MetalLB, foreign bool, o Observed) Decision {
	if d.Phase != v1alpha1.AppsPhaseReady {
		return d
	}
	if foreign && lb.Class == "" {
		d.Message += "; the MetalLB of the hosted cluster has no loadBalancerClass, so the management cluster may answer the Service too"
	}
	switch interval := w.Spec.MetalLB.GratuitousARPInterval; {
	case interval == "":
	case foreign:
		d.Message += fmt.Sprintf("; appsIngress.metallb.gratuitousARPInterval has no effect: MetalLB %s/%s is somebody else's", lb.Namespace, lb.Name)
	case !o.ARPIntervalServed:
		d.Message += "; appsIngress.metallb.gratuitousARPInterval has no effect: the hosted cluster's metallb-operator has no spec." + FieldARPInterval
	}
	return d
}

// announced: an address that nobody announces is no endpoint that works. It
// stays published, since speakers come and go with their nodes.
func announced(d Decision, s *Speaker) Decision {
	if d.Phase != v1alpha1.AppsPhaseReady || s == nil || s.Ready > 0 {
		return d
	}
	d.Phase, d.Reason, d.After = v1alpha1.AppsPhaseDegraded, v1alpha1.ReasonSpeakerNotRunning, recheckExternalIP
	d.Message = fmt.Sprintf("nobody announces the address: DaemonSet %s/%s of the hosted cluster has 0 of %d pods ready; its namespace must admit privileged pods",
		s.Namespace, s.Name, s.Desired)
	return d
}

// endpoint takes the Service's address if it is one of ours.
func (w Wanted) endpoint(d Decision, s *Service) Decision {
	if s == nil || len(s.Ingress) == 0 {
		d.Endpoint = Endpoint{}
		if s != nil && len(s.Unusable) > 0 {
			d.Phase, d.Reason = v1alpha1.AppsPhaseDegraded, v1alpha1.ReasonExternalIPDiscoveryFailed
			d.Message = fmt.Sprintf("the Service has %s: neither an IPv4 address nor a host name", strings.Join(s.Unusable, ", "))
		}
		return d
	}
	var outside []string
	for _, e := range s.Ingress {
		if e.IP.IsValid() && !w.Pool.Contains(e.IP) {
			outside = append(outside, e.IP.String())
			continue
		}
		d.Phase, d.Reason, d.Endpoint, d.After = v1alpha1.AppsPhaseReady, v1alpha1.ReasonReconciliationSucceeded, e, recheckReady
		d.Message = "*.apps is served"
		return d
	}
	d.Phase, d.Reason, d.Endpoint, d.After = v1alpha1.AppsPhaseDegraded, v1alpha1.ReasonExternalIPNotInPool, Endpoint{}, recheckExternalIP
	d.Message = fmt.Sprintf("the Service has %s, which lies outside appsIngress.metallb.ipAddressPoolRange %s",
		strings.Join(outside, ", "), w.Spec.MetalLB.IPAddressPoolRange)
	return d
}

// kindCSV is what OLM makes of a Subscription, and leaves when that is deleted: one
// without a Subscription blocks the next installation.
const kindCSV = "ClusterServiceVersion"

// Remove gives what disabling or deleting removes: everything recorded, but the
// operator and its MetalLB only where nobody else has a pool.
func Remove(w Wanted, o Observed) []v1alpha1.AppliedObject {
	var out []v1alpha1.AppliedObject
	for _, kind := range []string{"Service", "L2Advertisement", "IPAddressPool", "MetalLB", "Subscription", kindCSV} {
		if o.ForeignPools && slices.Contains([]string{"MetalLB", "Subscription", kindCSV}, kind) {
			continue
		}
		for _, a := range w.Applied {
			if a.Kind == kind && !takenOver(a, o) {
				out = append(out, a)
			}
		}
	}
	return out
}

// takenOver: what OLM made of our Subscription is that of somebody else's by now.
func takenOver(a v1alpha1.AppliedObject, o Observed) bool {
	return a.Kind == kindCSV && slices.ContainsFunc(o.Subscriptions, func(s Subscription) bool {
		return !s.Ours && s.Namespace == a.Namespace && s.InstalledCSV == a.Name
	})
}

// Installed is what OLM has made of our Subscriptions, without UIDs. It is to be
// recorded: once a Subscription is gone nobody tells.
func Installed(o Observed) []v1alpha1.AppliedObject {
	var out []v1alpha1.AppliedObject
	for _, s := range o.Subscriptions {
		if s.Ours && s.InstalledCSV != "" {
			out = append(out, v1alpha1.AppliedObject{
				APIVersion: "operators.coreos.com/v1alpha1", Kind: kindCSV, Namespace: s.Namespace, Name: s.InstalledCSV,
			})
		}
	}
	return out
}

// ServingMetalLB is the MetalLB that serves our pool, which lies in its namespace,
// and whether somebody else made it. Where there is none yet it is where ours will be.
func (w Wanted) ServingMetalLB(o Observed) (MetalLB, bool) {
	for _, m := range o.MetalLBs {
		if !m.Ours {
			return m, true
		}
	}
	for _, m := range o.MetalLBs {
		return m, false
	}
	ns := string(OperatorNamespace)
	for _, s := range o.Subscriptions {
		ns = s.Namespace
	}
	return MetalLB{Namespace: ns}, false
}

func (w Wanted) owns(s *Service) bool {
	return s.Ours || slices.ContainsFunc(w.Applied, func(a v1alpha1.AppliedObject) bool {
		return a.Kind == "Service" && a.UID == s.UID && a.UID != ""
	})
}

// stale are recorded objects that the declaration no longer names.
func (w Wanted) stale(ns string) []v1alpha1.AppliedObject {
	keep := map[string]string{
		"Service":         string(w.Spec.Service.Namespace) + "/" + string(w.Spec.Service.Name),
		"IPAddressPool":   ns + "/" + string(w.Spec.MetalLB.AddressPoolName),
		"L2Advertisement": ns + "/" + w.advertisementName(),
	}
	var out []v1alpha1.AppliedObject
	for _, kind := range []string{"Service", "L2Advertisement", "IPAddressPool"} {
		for _, a := range w.Applied {
			if a.Kind == kind && keep[kind] != a.Namespace+"/"+a.Name {
				out = append(out, a)
			}
		}
	}
	return out
}

func (w Wanted) identity(uid string) v1alpha1.AppliedObject {
	return v1alpha1.AppliedObject{
		APIVersion: "v1", Kind: "Service", Namespace: string(w.Spec.Service.Namespace), Name: string(w.Spec.Service.Name), UID: uid,
	}
}

func (w Wanted) pending(reason, message string, after time.Duration) Decision {
	return Decision{Phase: v1alpha1.AppsPhasePending, Reason: reason, Message: message, Endpoint: w.Last, After: after}
}

func (w Wanted) degraded(reason, message string) Decision {
	return Decision{Phase: v1alpha1.AppsPhaseDegraded, Reason: reason, Message: message, Endpoint: w.Last, After: recheckFault}
}

func (w Wanted) keepInPool(e Endpoint) Endpoint {
	if e.IP.IsValid() && !w.Pool.Contains(e.IP) {
		return Endpoint{}
	}
	return e
}
