package offline

import (
	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// set gives an empty value its default.
func set[T comparable](to *T, value T) {
	var empty T
	if *to == empty {
		*to = value
	}
}

// yes gives an absent flag the default true.
func yes(flag **bool) {
	if *flag == nil {
		on := true
		*flag = &on
	}
}

// Default applies the schemas' defaults, as the API server would have.
func (o *Objects) Default() {
	for i := range o.World.Infras {
		defaultInfra(&o.World.Infras[i].Spec)
	}
	for i := range o.World.Attachments {
		defaultAttachment(&o.World.Attachments[i].Spec)
	}
	for i := range o.World.DHCPServers {
		s := &o.World.DHCPServers[i].Spec
		set(&s.LeaseConfig.LeaseTime, "1h")
		set(&s.UnknownClients, v1alpha1.UnknownClientsServe)
	}
	for i := range o.DNSServers {
		set(&o.DNSServers[i].Spec.TTLSeconds, 30)
	}
	for i := range o.World.ProxyServers {
		s := &o.World.ProxyServers[i].Spec
		yes(&s.AccessLog)
		set(&s.LogLevel, "info")
	}
}

func defaultInfra(s *v1alpha1.InfraSpec) {
	set(&s.ConflictPolicy, v1alpha1.ConflictPolicyExcludeAll)
	yes(&s.RetainDisabled)
	dhcp, dns, proxy := &s.InfraComponents.DHCP, &s.InfraComponents.DNS, &s.InfraComponents.Proxy
	yes(&dhcp.Enabled)
	set(&dhcp.LeaseTime, "1h")
	set(&dhcp.UnknownClients, v1alpha1.UnknownClientsServe)
	yes(&dns.Enabled)
	set(&dns.TTLSeconds, 30)
	yes(&proxy.Enabled)
	yes(&proxy.AccessLog)
	set(&proxy.LegacyKonnectivityFallback, v1alpha1.LegacyKonnectivityFallbackAuto)
}

func defaultAttachment(s *v1alpha1.InfraClusterAttachmentSpec) {
	set(&s.HostedClusterRef.Namespace, "clusters")
	set(&s.APIServerService, "kube-apiserver")
	apps := &s.AppsIngress
	set(&apps.Service.Name, "oooi-ingress")
	set(&apps.Service.Namespace, "openshift-ingress")
	set(&apps.Ports.HTTP, 80)
	set(&apps.Ports.HTTPS, 443)
	if apps.MetalLB != (v1alpha1.AppsMetalLB{}) {
		operator := &apps.MetalLB.Operator
		set(&operator.Source, "redhat-operators")
		set(&operator.SourceNamespace, "openshift-marketplace")
		set(&operator.Channel, "stable")
		set(&operator.Package, "metallb-operator")
	}
}
