package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Aliases are the names that every Kubernetes client knows (behaviour D3).
var Aliases = []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}

// The defaults of *.apps' ports (behaviour A2).
const (
	defaultHTTP  = 80
	defaultHTTPS = 443
)

// isLabel says whether s is a lower-case DNS label (RFC 1123 section 2.1).
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }) < 0
}

// Domain is an attachment's domain in lower case without a trailing dot.
func Domain(d v1alpha1.AttachmentDNS) string {
	return strings.TrimSuffix(strings.ToLower(string(d.ClusterName)+"."+string(d.BaseDomain)), ".")
}

// CheckAttachment names what is wrong with an attachment's spec, whatever the
// API server has let through (behaviour A5); empty: nothing.
func CheckAttachment(s v1alpha1.InfraClusterAttachmentSpec) string {
	if s.HostedClusterRef.Name == "" {
		return "hostedClusterRef.name must be set"
	}
	if fault := checkDomain(s.DNS); fault != "" {
		return fault
	}
	if s.ControlPlaneNamespace != "" && !isLabel(string(s.ControlPlaneNamespace)) {
		return fmt.Sprintf("controlPlaneNamespace %q must be the name of a namespace", s.ControlPlaneNamespace)
	}
	if s.APIServerService != "" && !isLabel(string(s.APIServerService)) {
		return fmt.Sprintf("apiServerService %q must be the name of a Service", s.APIServerService)
	}
	return ""
}

// CheckApps names what is wrong with *.apps as it is declared, also where it is
// not enabled; it leaves out *.apps alone.
func CheckApps(a v1alpha1.AppsIngress) string {
	if a.Enabled {
		_, fault := checkApps(a)
		return fault
	}
	if r := string(a.MetalLB.IPAddressPoolRange); r != "" {
		if _, err := ParseRange(r); err != nil {
			return "appsIngress.metallb.ipAddressPoolRange " + err.Error()
		}
	}
	return checkAppsParts(a)
}

func checkDomain(d v1alpha1.AttachmentDNS) string {
	for _, part := range []struct {
		field string
		value v1alpha1.DomainName
	}{{"dns.clusterName", d.ClusterName}, {"dns.baseDomain", d.BaseDomain}} {
		for l := range strings.SplitSeq(string(part.value), ".") {
			if !isLabel(l) {
				return fmt.Sprintf("%s %q must be a lower-case DNS name without a trailing dot", part.field, part.value)
			}
		}
	}
	domain := string(d.ClusterName) + "." + string(d.BaseDomain)
	if len(domain) > 241 {
		return fmt.Sprintf("dns.clusterName.baseDomain %s must be at most 241 characters: konnectivity.<domain> must fit into 253", domain)
	}
	if slices.ContainsFunc(Aliases, func(a string) bool { return a == domain || strings.HasSuffix(a, "."+domain) }) {
		return fmt.Sprintf("dns.clusterName.baseDomain %s shadows a service alias of Kubernetes", domain)
	}
	if strings.HasSuffix("."+string(d.BaseDomain), ".cluster.local") {
		return fmt.Sprintf("dns.baseDomain %s lies in cluster.local", d.BaseDomain)
	}
	return ""
}

// AppsPorts are the ports of *.apps with their defaults.
func AppsPorts(p v1alpha1.AppsPorts) (http, https uint16) {
	http, https = uint16(p.HTTP), uint16(p.HTTPS)
	if http == 0 {
		http = defaultHTTP
	}
	if https == 0 {
		https = defaultHTTPS
	}
	return http, https
}

// checkApps names what is wrong with appsIngress alone.
func checkApps(a v1alpha1.AppsIngress) (Range, string) {
	if a.MetalLB.AddressPoolName == "" || a.MetalLB.IPAddressPoolRange == "" {
		return Range{}, "appsIngress.metallb.addressPoolName and ipAddressPoolRange are required when appsIngress.enabled is true"
	}
	r, err := ParseRange(string(a.MetalLB.IPAddressPoolRange))
	if err != nil {
		return Range{}, "appsIngress.metallb.ipAddressPoolRange " + err.Error()
	}
	return r, checkAppsParts(a)
}

// checkAppsParts are those parts of *.apps that say something by themselves.
func checkAppsParts(a v1alpha1.AppsIngress) string {
	if fault := checkPorts(a.Ports); fault != "" {
		return fault
	}
	if fault := checkARPInterval(a.MetalLB.GratuitousARPInterval); fault != "" {
		return fault
	}
	for _, key := range []string{"metallb.universe.tf/address-pool", "metallb.io/address-pool"} {
		if _, found := a.Service.Annotations[key]; found {
			return "appsIngress.service.annotations must not hold " + key + ": it is made from metallb.addressPoolName"
		}
	}
	return ""
}

// checkARPInterval: MetalLB's speakers count in whole seconds.
func checkARPInterval(i v1alpha1.ARPInterval) string {
	if i == "" {
		return ""
	}
	d, err := time.ParseDuration(string(i))
	if err != nil || d < time.Second || d > time.Hour || d%time.Second != 0 {
		return fmt.Sprintf("appsIngress.metallb.gratuitousARPInterval %q must be a duration in whole seconds between 1s and 1h, such as 1m", i)
	}
	return ""
}

func checkPorts(p v1alpha1.AppsPorts) string {
	for _, port := range []v1alpha1.Port{p.HTTP, p.HTTPS} {
		if port < 0 || port > 65535 {
			return fmt.Sprintf("appsIngress.ports.http and https must be between 1 and 65535: %d", port)
		}
	}
	http, https := AppsPorts(p)
	if slices.Contains([]uint16{53, 443, 6443}, http) {
		return fmt.Sprintf("appsIngress.ports.http %d must not be 53, 443 or 6443", http)
	}
	if slices.Contains([]uint16{53, 80, 6443}, https) {
		return fmt.Sprintf("appsIngress.ports.https %d must not be 53, 80 or 6443", https)
	}
	if http == https {
		return fmt.Sprintf("appsIngress.ports.http and https must differ, both are %d", http)
	}
	if isProxysOwn(http) {
		return fmt.Sprintf("appsIngress.ports.http %d must not be 9901, 9090-9099 or 20000-20999", http)
	}
	if isProxysOwn(https) {
		return fmt.Sprintf("appsIngress.ports.https %d must not be 9901, 9090-9099 or 20000-20999", https)
	}
	return ""
}

// isProxysOwn: the proxy's pod listens there for others than tenants.
func isProxysOwn(port uint16) bool {
	return port == 9901 || port >= 9090 && port <= 9099 || port >= 20000 && port <= 20999
}
