package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// assemble makes the Plan out of what was judged.
func (w *world) assemble(all, local []*candidate, found []collision, leaving []rangeClaim) Plan {
	own := slices.DeleteFunc(slices.Clone(all), func(c *candidate) bool { return !c.own })
	ranges := rangesOf(local, leaving)
	w.judgeEndpoints(own, local)
	included := slices.DeleteFunc(slices.Clone(own), func(c *candidate) bool { return !c.included() })
	sources, ambiguous := sourcesOf(w.in, w.own, own, merge(append(endpointsOf(local), ranges...)))
	pod, unresolved := w.internalProxy()

	p := Plan{Network: w.renewed(), InternalProxyIP: pod.addr}
	wanting := slices.DeleteFunc(slices.Clone(own), func(c *candidate) bool {
		return !c.Spec.ExternalService.Enabled || c.HostedClusterUID == ""
	})
	ports := externalPorts(w.in, wanting)
	p.DHCP = w.dhcpServer(own, ranges)
	p.DNS = w.dnsServer(included, sources, pod)
	p.Proxy = w.proxyServer(own, included, wanting, sources, ports, pod)
	p.Attachments = verdicts(own, sources, ports)
	p.InForce = w.inForce(own, ports)
	p.Problems = w.problems(own, found, ambiguous, unresolved, &p)
	return p
}

// rangesOf are the load balancer ranges in force on the network.
func rangesOf(local []*candidate, leaving []rangeClaim) []Range {
	var out []Range
	for _, c := range local {
		if c.wantsApps() && c.appsRange.IsValid() {
			out = append(out, c.appsRange)
		}
	}
	for _, l := range leaving {
		out = append(out, l.Range)
	}
	sortRanges(out)
	return slices.Compact(out)
}

// endpointsOf are the addresses of *.apps: no worker's, whatever a guest says.
func endpointsOf(local []*candidate) []Range {
	var out []Range
	for _, c := range local {
		if c.AppsIP.IsValid() {
			out = append(out, Range{c.AppsIP, c.AppsIP})
		}
	}
	return out
}

// judgeEndpoints leaves out an endpoint of *.apps that is not on the VLAN, is a
// server's, or lies in another attachment's range: the hosted cluster says it.
func (w *world) judgeEndpoints(own, local []*candidate) {
	for _, c := range own {
		if !c.wantsApps() {
			continue
		}
		if c.AppsIP.IsValid() && !w.endpointAllowed(c, local) {
			c.endpointFault = Reason{v1alpha1.ReasonExternalIPNotInPool, fmt.Sprintf(
				"the endpoint %s of *.apps is no free address of networkConfig.cidr %s", c.AppsIP, w.own.cidr)}
		}
		name := strings.TrimSuffix(strings.ToLower(c.AppsHostname), ".")
		if !c.AppsIP.IsValid() && name != "" && !isDomain(name) {
			c.endpointFault = Reason{v1alpha1.ReasonExternalIPNotInPool, fmt.Sprintf("the endpoint %q of *.apps is no DNS name", c.AppsHostname)}
		}
	}
}

func (w *world) endpointAllowed(c *candidate, local []*candidate) bool {
	if !isHost(w.own.cidr, c.AppsIP) || slices.Contains(w.own.reserved(), c.AppsIP) {
		return false
	}
	// Outside its own range it may not be an address that DHCP gives.
	if w.own.pool.Contains(c.AppsIP) && !c.appsRange.Contains(c.AppsIP) {
		return false
	}
	return !slices.ContainsFunc(local, func(o *candidate) bool {
		return o.appsRange.Contains(c.AppsIP) && o.Key != c.Key && o.wantsApps()
	})
}

// publishes says whether *.apps may have an answer and a route.
func (c *candidate) publishes() bool { return c.wantsApps() && c.endpointFault.Reason == "" }

func isDomain(name string) bool {
	if len(name) > 253 {
		return false
	}
	for l := range strings.SplitSeq(name, ".") {
		if !isLabel(l) {
			return false
		}
	}
	return true
}

// verdicts tell each attachment what became of it.
func verdicts(own []*candidate, sources map[Key][]netip.Addr, ports map[string]uint16) []Verdict {
	var out []Verdict
	for _, c := range own {
		v := Verdict{Key: c.Key, Included: c.included(), Sources: sources[c.Key], ExternalPort: ports[c.Name]}
		v.Apps = v.Included && c.wantsApps()
		v.Reason = firstOf(c.reason, c.apps, c.endpointFault)
		out = append(out, v)
	}
	return out
}

// firstOf is the first reason that there is.
func firstOf(reasons ...Reason) Reason {
	for _, r := range reasons {
		if r.Reason != "" {
			return r
		}
	}
	return Reason{}
}

// inForce is what the status records, sorted: the claims that were met, and what
// is being given up but is not gone yet.
func (w *world) inForce(own []*candidate, ports map[string]uint16) []v1alpha1.AttachmentInForce {
	var out []v1alpha1.AttachmentInForce
	recorded := map[string]v1alpha1.AttachmentInForce{}
	for _, r := range w.in.Infra.InForce {
		recorded[string(r.Attachment)] = r
	}
	for _, c := range own {
		r := c.holds(recorded[c.Name])
		r.ExternalPort = v1alpha1.Port(ports[c.Name])
		if r != (v1alpha1.AttachmentInForce{Attachment: r.Attachment}) {
			out = append(out, r)
		}
	}
	for _, a := range w.in.Attachments {
		r, found := recorded[a.Name]
		if found && a.Deleting && a.Namespace == w.in.Infra.Namespace && string(a.Spec.InfraRef.Name) == w.in.Infra.Name {
			out = append(out, v1alpha1.AttachmentInForce{Attachment: r.Attachment, Range: r.Range, ExternalPort: r.ExternalPort})
		}
	}
	out = sortInForce(out)
	if len(out) > MaxAttachments {
		out = out[:MaxAttachments]
	}
	return out
}

// holds are the claims of one attachment that were met.
func (c *candidate) holds(recorded v1alpha1.AttachmentInForce) v1alpha1.AttachmentInForce {
	r := v1alpha1.AttachmentInForce{Attachment: v1alpha1.ObjectName(c.Name)}
	if c.included() {
		r.Domain, r.HostedClusterUID = v1alpha1.DomainName(c.domain), c.HostedClusterUID
	}
	if c.wantsApps() && c.appsRange.IsValid() {
		http, https := AppsPorts(c.Spec.AppsIngress.Ports)
		r.Range, r.HTTPPort, r.HTTPSPort = v1alpha1.IPv4Range(c.appsRange.String()), v1alpha1.Port(http), v1alpha1.Port(https)
	} else if leaving(c.Attachment) {
		r.Range = recorded.Range
	}
	return r
}

// problems are all that was found wrong, sorted.
func (w *world) problems(own []*candidate, found []collision, ambiguous []Problem, unresolved Reason, p *Plan) []Problem {
	infra := w.in.Infra.Key
	out := slices.Clone(ambiguous)
	add := func(kind string, key Key, r Reason) {
		if r.Reason != "" && r.Reason != v1alpha1.ReasonDisabled {
			out = append(out, Problem{kind, key, r})
		}
	}
	for _, g := range found {
		if slices.ContainsFunc(g.members, func(c *candidate) bool { return c.own && c.reason.Reason == g.reason }) {
			add("Infra", infra, Reason{g.reason, g.String()})
		}
	}
	add("Infra", infra, w.beside)
	add("Infra", infra, p.DHCP.Reason)
	add("Infra", infra, p.DNS.Reason)
	add("Infra", infra, p.Proxy.Reason)
	add("Infra", infra, unresolved)
	for _, warning := range w.own.warnings {
		add("Infra", infra, Reason{v1alpha1.ReasonInvalidConfiguration, warning})
	}
	var tooMany []string
	for _, c := range own {
		add("InfraClusterAttachment", c.Key, c.reason)
		add("InfraClusterAttachment", c.Key, firstOf(c.apps, c.endpointFault))
		if c.reason.Reason == v1alpha1.ReasonTooManyAttachments {
			tooMany = append(tooMany, c.Name)
		}
	}
	if len(tooMany) > 0 {
		add("Infra", infra, Reason{
			v1alpha1.ReasonTooManyAttachments,
			fmt.Sprintf("an Infra serves at most %d attachments; left out: %s", MaxAttachments, listed(tooMany)),
		})
	}
	out = append(out, w.hubProxyProblem()...)
	out = append(out, w.ipamProblem()...)
	out = append(out, w.shortageProblem(own)...)
	sortProblems(out)
	return slices.Compact(out)
}

// listed is a list that stays short enough for a condition.
func listed(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func sortProblems(p []Problem) {
	slices.SortFunc(p, func(a, b Problem) int {
		if o := strings.Compare(a.Kind, b.Kind); o != 0 {
			return o
		}
		if o := compareKeys(a.Key, b.Key); o != 0 {
			return o
		}
		if o := strings.Compare(a.Reason.Reason, b.Reason.Reason); o != 0 {
			return o
		}
		return strings.Compare(a.Message, b.Message)
	})
}
