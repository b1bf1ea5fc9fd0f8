package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// MaxAttachments of an Infra (behaviour A9).
const MaxAttachments = 250

// candidate is an attachment while it is judged.
type candidate struct {
	Attachment
	infra  Key
	domain string
	// own: it names the Infra that is planned.
	own bool
	// policy of its Infra.
	policy v1alpha1.ConflictPolicy
	// record of it in its Infra's status.
	record v1alpha1.AttachmentInForce
	rank   rank
	// admitted: it counts against others.
	admitted bool
	reason   Reason
	// apps says why *.apps is left out.
	apps      Reason
	appsRange Range
	// endpoint says why the endpoint of *.apps is not published.
	endpointFault Reason
}

// included: its names and routes are in the plan.
func (c *candidate) included() bool { return c.admitted && c.reason.Reason == "" }

// refuse keeps the first reason.
func (c *candidate) refuse(reason, format string, args ...any) {
	if c.reason.Reason == "" {
		c.reason = Reason{reason, fmt.Sprintf(format, args...)}
	}
}

// candidates are the attachments of every Infra, sorted, without those that are
// being deleted.
func candidates(in Inputs) []*candidate {
	policies := map[Key]v1alpha1.ConflictPolicy{}
	records := map[Key]v1alpha1.AttachmentInForce{}
	for _, i := range append([]Infra{in.Infra}, in.Siblings...) {
		policies[i.Key] = i.Spec.ConflictPolicy
		for _, r := range i.InForce {
			records[Key{i.String(), string(r.Attachment)}] = r
		}
	}
	var out []*candidate
	for _, a := range in.Attachments {
		key := Key{a.Namespace, string(a.Spec.InfraRef.Name)}
		policy, known := policies[key]
		if !known || a.Deleting {
			continue
		}
		c := &candidate{Attachment: a, infra: key, own: key == in.Infra.Key, policy: policy, domain: Domain(a.Spec.DNS)}
		c.record = records[Key{key.String(), a.Name}]
		c.rank = rank{inForce: c.record.HostedClusterUID != "" && c.record.HostedClusterUID == a.HostedClusterUID, created: a.Created, name: a.Key}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *candidate) int { return compareKeys(a.Key, b.Key) })
	return slices.CompactFunc(out, func(a, b *candidate) bool { return a.Key == b.Key })
}

// judgeAlone decides what needs no other attachment: the spec (behaviour A5),
// the permission (behaviour F0) and the hosted cluster's own networks.
func judgeAlone(c *candidate, vlan netip.Prefix) {
	if fault := CheckAttachment(c.Spec); fault != "" {
		c.refuse(v1alpha1.ReasonInvalidConfiguration, "%s", fault)
		return
	}
	if c.HostedClusterUID == "" {
		c.reason = c.Refusal
		c.refuse(v1alpha1.ReasonHostedClusterNotFound, "HostedCluster %s/%s is not known yet", hostedNamespace(c.Spec), c.Spec.HostedClusterRef.Name)
		return
	}
	for _, n := range slices.SortedFunc(slices.Values(c.Networks), comparePrefixes) {
		if vlan.IsValid() && n.Overlaps(vlan) {
			c.refuse(v1alpha1.ReasonNetworkOverlap, "the hosted cluster's network %s overlaps networkConfig.cidr %s", n, vlan)
			return
		}
	}
	c.admitted = true
}

func comparePrefixes(a, b netip.Prefix) int {
	if o := a.Addr().Compare(b.Addr()); o != 0 {
		return o
	}
	return a.Bits() - b.Bits()
}

// hostedNamespace is hostedClusterRef.namespace with its default.
func hostedNamespace(s v1alpha1.InfraClusterAttachmentSpec) string {
	if s.HostedClusterRef.Namespace == "" {
		return "clusters"
	}
	return string(s.HostedClusterRef.Namespace)
}

// limit excludes the newest attachments beyond MaxAttachments of each Infra.
func limit(all []*candidate) {
	perInfra := map[Key][]*candidate{}
	for _, c := range all {
		if c.admitted {
			perInfra[c.infra] = append(perInfra[c.infra], c)
		}
	}
	for _, list := range perInfra {
		slices.SortFunc(list, func(a, b *candidate) int { return a.rank.compare(b.rank) })
		for i, c := range list {
			if i >= MaxAttachments {
				c.admitted = false
				c.refuse(v1alpha1.ReasonTooManyAttachments, "an Infra serves at most %d attachments", MaxAttachments)
			}
		}
	}
}

// collision is one group of attachments that cannot all be.
type collision struct {
	reason  string
	what    string
	members []*candidate
}

// String names the group, sorted.
func (g collision) String() string {
	names := make([]string, len(g.members))
	for i, m := range g.members {
		names[i] = m.Name
		if !m.own {
			names[i] = m.String()
		}
	}
	slices.Sort(names)
	return g.what + ": " + strings.Join(names, ", ")
}

// collisions finds the groups of equal or nested domains among attachments of
// one network, and of equal HostedClusters among all (behaviours F0, F4).
func collisions(all []*candidate, near func(Key) bool) []collision {
	var judged, local []*candidate
	for _, c := range all {
		if !c.admitted {
			continue
		}
		judged = append(judged, c)
		if near(c.infra) {
			local = append(local, c)
		}
	}
	domains := make([]string, len(local))
	for i, c := range local {
		domains[i] = c.domain
	}
	clusters := make([]Key, len(judged))
	for i, c := range judged {
		clusters[i] = Key{hostedNamespace(c.Spec), string(c.Spec.HostedClusterRef.Name)}
	}
	var out []collision
	add := func(reason, format string, from []*candidate, members []int) {
		g := collision{reason: reason}
		var names []string
		for _, m := range members {
			g.members = append(g.members, from[m])
			names = append(names, from[m].domain)
			if reason == v1alpha1.ReasonDuplicateHostedCluster {
				names[len(names)-1] = clusters[m].String()
			}
		}
		slices.Sort(names)
		g.what = fmt.Sprintf(format, strings.Join(slices.Compact(names), ", "))
		if slices.ContainsFunc(g.members, func(c *candidate) bool { return c.own }) {
			out = append(out, g)
		}
	}
	for _, m := range groups(len(local), domainPairs(domains)) {
		add(v1alpha1.ReasonDuplicateHostname, "domain %s", local, m)
	}
	for _, m := range groups(len(judged), equalPairs(clusters)) {
		add(v1alpha1.ReasonDuplicateHostedCluster, "HostedCluster %s", judged, m)
	}
	return out
}

// settle excludes what collides (behaviour F4): within a namespace by the Infra's
// policy, whatever is elsewhere, and between namespaces whatever is not in force
// first. Who may write in another one has no say over what is served here, neither
// by coming nor by going; and what a policy has excluded is not free for others.
func settle(found []collision) {
	for _, g := range found {
		for _, c := range append(g.barred(), g.losers()...) {
			c.refuse(g.reason, "%s", g)
		}
	}
}

// barred are the members that ExcludeAll excludes: those that collide, directly or
// through others, within their own namespace.
func (g collision) barred() []*candidate {
	namespaces := map[string][]*candidate{}
	for _, m := range g.members {
		namespaces[m.Namespace] = append(namespaces[m.Namespace], m)
	}
	var out []*candidate
	for _, members := range namespaces {
		for _, group := range groups(len(members), g.pairs(members)) {
			for _, i := range group {
				if members[i].policy != v1alpha1.ConflictPolicyKeepOldest {
					out = append(out, members[i])
				}
			}
		}
	}
	return out
}

// pairs joins those of the members that collide.
func (g collision) pairs(members []*candidate) func(join func(a, b int)) {
	values := make([]string, len(members))
	if g.reason == v1alpha1.ReasonDuplicateHostedCluster {
		return equalPairs(values) // one HostedCluster is the group
	}
	for i, m := range members {
		values[i] = m.domain
	}
	return domainPairs(values)
}

// losers are the members that collide with one that is in force or older.
func (g collision) losers() []*candidate {
	byKey := map[Key]*candidate{}
	for _, m := range g.members {
		byKey[m.Key] = m
	}
	refused := accept(slices.Clone(g.members), func(c *candidate) rank {
		r := c.rank
		r.inForce = r.inForce && string(c.record.Domain) == c.domain
		return r
	}, func(a, b *candidate) bool {
		return g.reason == v1alpha1.ReasonDuplicateHostedCluster || domainsCollide(a.domain, b.domain)
	})
	var out []*candidate
	for key := range refused {
		out = append(out, byKey[key])
	}
	return out
}
