package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// world is the inputs with the networks parsed.
type world struct {
	in       Inputs
	own      *network
	networks map[Key]*network
	refusal  Reason
	// beside names who of another namespace holds what this Infra holds too.
	beside Reason
	// idle are the Infras of this network that hold nothing of it and may not
	// have it: their attachments count against nobody.
	idle map[Key]bool
}

// survey parses every Infra's network and judges the planned one's.
func survey(in Inputs) *world {
	w := &world{in: in, networks: map[Key]*network{}, idle: map[Key]bool{}}
	for _, s := range in.Siblings {
		n := parseNetwork(s)
		w.networks[s.Key] = &n
	}
	n := parseNetwork(in.Infra)
	w.own = &n
	w.networks[in.Infra.Key] = &n
	if a, found := in.ClusterIPs[w.dnsService()]; found {
		w.own.dropUpstream(a)
	}
	w.refusal = w.judgeNetwork()
	return w
}

// judgeNetwork says why nothing of the Infra can be provisioned.
func (w *world) judgeNetwork() Reason {
	if w.own.fault != "" {
		return Reason{v1alpha1.ReasonInvalidConfiguration, w.own.fault}
	}
	for _, hub := range slices.SortedFunc(slices.Values(w.in.HubNetworks), comparePrefixes) {
		if hub.Overlaps(w.own.cidr) {
			return Reason{v1alpha1.ReasonNetworkOverlap, fmt.Sprintf(
				"networkConfig.cidr %s overlaps %s, a pod or service network of the management cluster", w.own.cidr, hub)}
		}
	}
	claims := w.netClaims()
	refused := accept(claims, func(c netClaim) rank { return c.rank }, netClaimsCollide)
	for _, s := range w.in.Siblings {
		if _, lost := refused[s.Key]; (lost || w.networks[s.Key].fault != "") && s.Network == nil {
			w.idle[s.Key] = true
		}
	}
	if by, found := refused[w.in.Infra.Key]; found {
		return Reason{v1alpha1.ReasonDuplicateNetwork, fmt.Sprintf(
			"networkConfig.cidr %s: Infra %s holds %s on the same network", w.own.cidr, by.name, by.describe())}
	}
	w.beside = w.sharing(claims)
	return Reason{}
}

// sharing tells of an Infra of another namespace that holds the same and was made
// before. Neither loses by it, and one of them is wrong.
func (w *world) sharing(claims []netClaim) Reason {
	own := slices.IndexFunc(claims, func(c netClaim) bool { return c.name == w.in.Infra.Key })
	for _, c := range claims {
		if own >= 0 && sideBySide(claims[own], c) && claims[own].meets(c) && c.compare(claims[own].rank) < 0 {
			return Reason{v1alpha1.ReasonDuplicateNetwork, fmt.Sprintf(
				"networkConfig.cidr %s: Infra %s says that it holds %s on the same network; both go on", w.own.cidr, c.name, c.describe())}
		}
	}
	return Reason{}
}

func (c netClaim) describe() string {
	names := make([]string, len(c.servers))
	for i, s := range c.servers {
		names[i] = s.String()
	}
	return strings.TrimSuffix(c.cidr.String()+" with servers "+strings.Join(names, ", "), " with servers ")
}

// netClaims are what the Infras of one network want, and what those hold that
// want something else by now.
func (w *world) netClaims() []netClaim {
	var out []netClaim
	for _, i := range append([]Infra{w.in.Infra}, w.in.Siblings...) {
		n := w.networks[i.Key]
		if !w.near(i.Key) {
			continue
		}
		held := w.held(i)
		asIs := false
		if n.fault == "" {
			dhcp := enabled(i.Spec.InfraComponents.DHCP.Enabled) && n.dhcpFault == ""
			asIs = held != nil && sameHold(*i.Network, *n.inForce()) && (held.dhcp || !dhcp)
			out = append(out, netClaim{
				rank: rank{inForce: asIs, created: i.Created, name: i.Key}, cidr: n.cidr, servers: n.servers(), dhcp: dhcp, holds: held,
			})
		}
		if held != nil && !asIs && i.Key != w.in.Infra.Key {
			out = append(out, *held)
		}
	}
	return out
}

// held is what an Infra holds of the network: what its status records, where its
// servers are on it. The record does not name the network.
func (w *world) held(i Infra) *netClaim {
	own := w.attachment(w.own.nad)
	here := func(nad Key) bool { return sameNetwork(w.attachment(nad), own) }
	if i.Network == nil || len(i.On) > 0 && !slices.ContainsFunc(i.On, here) {
		return nil
	}
	cidr, err := ParseCIDR(string(i.Network.CIDR))
	if err != nil {
		return nil
	}
	c := &netClaim{rank: rank{inForce: true, created: i.Created, name: i.Key}, cidr: cidr, dhcp: i.DHCP}
	if len(i.On) == 0 {
		c.dhcp = i.Network.DHCPServerIP != ""
	}
	for _, ip := range []v1alpha1.IPv4{i.Network.DHCPServerIP, i.Network.DNSServerIP, i.Network.ProxyServerIP} {
		if a, err := ParseIPv4(string(ip)); err == nil {
			c.servers = append(c.servers, a)
		}
	}
	c.servers = sortAddrs(c.servers)
	c.holds = c
	return c
}

// dnsService is our own Service in front of the DNS server.
func (w *world) dnsService() Key { return Key{w.in.Infra.Namespace, w.in.Infra.Name + "-dns"} }

// near says whether an Infra is on the planned one's network.
func (w *world) near(infra Key) bool {
	n, found := w.networks[infra]
	if !found {
		return false
	}
	return sameNetwork(w.attachment(n.nad), w.attachment(w.own.nad))
}

// attachment is what is known of a NetworkAttachmentDefinition.
func (w *world) attachment(nad Key) NetworkAttachment {
	for _, a := range w.in.NetworkAttachments {
		if a.Key == nad {
			return a
		}
	}
	return NetworkAttachment{Key: nad}
}

// twins are every NetworkAttachmentDefinition of the network, sorted (behaviour C3).
func (w *world) twins() []v1alpha1.NetworkAttachment {
	own := w.attachment(w.own.nad)
	keys := []Key{own.Key}
	for _, a := range w.in.NetworkAttachments {
		if sameNetwork(a, own) {
			keys = append(keys, a.Key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	keys = slices.Compact(keys)
	if len(keys) > maxTwins {
		keys = keys[:maxTwins]
	}
	out := make([]v1alpha1.NetworkAttachment, len(keys))
	for i, k := range keys {
		out[i] = v1alpha1.NetworkAttachment{Namespace: v1alpha1.NamespaceName(k.Namespace), Name: v1alpha1.ObjectName(k.Name)}
	}
	return out
}

// maxTwins is what the DHCPServer's schema takes.
const maxTwins = 1024

// refused is the Plan of an Infra that cannot be provisioned: what is there
// stays, nothing new is made.
func (w *world) refused() Plan {
	i := w.in.Infra
	p := Plan{
		Network: i.Network, InForce: sortInForce(i.InForce), InternalProxyIP: i.InternalProxyIP, Refusal: w.refusal,
		Problems: []Problem{{"Infra", i.Key, w.refusal}},
	}
	p.DHCP = Component[v1alpha1.DHCPServerSpec]{Action: Keep, Reason: w.refusal}
	p.DNS = Component[v1alpha1.DNSServerSpec]{Action: Keep, Reason: w.refusal}
	p.Proxy = Component[v1alpha1.ProxyServerSpec]{Action: Keep, Reason: w.refusal}
	for _, c := range candidates(w.in) {
		if c.own {
			waiting := Reason{v1alpha1.ReasonWaitingForInfra, "Infra " + i.Name + ": " + w.refusal.Message}
			p.Attachments = append(p.Attachments, Verdict{Key: c.Key, Reason: waiting})
		}
	}
	return p
}

// internalProxy resolves internalProxyService: an address, or a Service by its
// DNS name (behaviour D9). An unknown one keeps its last good address.
func (w *world) internalProxy() (podView, Reason) {
	name := w.in.Infra.Spec.InfraComponents.Proxy.InternalProxyService
	if name == "" {
		return podView{}, Reason{}
	}
	if a, err := netip.ParseAddr(name); err == nil {
		if a.Is4() {
			return podView{declared: true, addr: a}, Reason{}
		}
		return podView{declared: true}, Reason{
			v1alpha1.ReasonInternalProxyServiceUnresolved,
			fmt.Sprintf("infraComponents.proxy.internalProxyService %s must be an IPv4 address or a Service", name),
		}
	}
	key, ok := serviceKey(name, w.in.Infra.Namespace)
	if a, found := w.in.ClusterIPs[key]; ok && found {
		return podView{declared: true, addr: a}, Reason{}
	}
	// Our own is made from this Plan; its address comes with the next one.
	if NamesOwnProxy(w.in.Infra) && enabled(w.in.Infra.Spec.InfraComponents.Proxy.Enabled) && w.own.pxyFault == "" {
		return podView{declared: true, addr: w.in.Infra.InternalProxyIP}, Reason{}
	}
	return podView{declared: true, addr: w.in.Infra.InternalProxyIP}, Reason{
		v1alpha1.ReasonInternalProxyServiceUnresolved,
		fmt.Sprintf("infraComponents.proxy.internalProxyService %s names no Service with a ClusterIP", name),
	}
}

// NamesOwnProxy says whether internalProxyService is the Service that the
// operator itself makes in front of the proxy.
func NamesOwnProxy(i Infra) bool {
	key, ok := serviceKey(i.Spec.InfraComponents.Proxy.InternalProxyService, i.Namespace)
	return ok && key == Key{i.Namespace, i.Name + "-proxy"}
}

// serviceKey reads NAME, NAME.NAMESPACE, NAME.NAMESPACE.svc or a longer name of
// a Service.
func serviceKey(name, namespace string) (Key, bool) {
	parts := strings.Split(strings.TrimSuffix(name, "."), ".")
	switch {
	case len(parts) == 1:
		return Key{namespace, parts[0]}, true
	case len(parts) == 2 || parts[2] == "svc":
		return Key{parts[1], parts[0]}, true
	}
	return Key{}, false
}
