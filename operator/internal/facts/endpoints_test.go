package facts_test

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
)

const clusterDomain = "example-hcp-a.clusters.example.com"

func byRoute(service hyperv1.ServiceType, hostname string) hyperv1.ServicePublishingStrategyMapping {
	m := hyperv1.ServicePublishingStrategyMapping{Service: service}
	m.Type = hyperv1.Route
	if hostname != "" {
		m.Route = &hyperv1.RoutePublishingStrategy{Hostname: hostname}
	}
	return m
}

// good publishes exactly what the shared stack serves.
func good(h *hyperv1.HostedCluster) {
	api := hyperv1.ServicePublishingStrategyMapping{Service: hyperv1.APIServer}
	api.Type, api.LoadBalancer = hyperv1.LoadBalancer, &hyperv1.LoadBalancerPublishingStrategy{Hostname: "api." + clusterDomain}
	h.Spec.Services = []hyperv1.ServicePublishingStrategyMapping{
		api, byRoute(hyperv1.OAuthServer, "oauth."+clusterDomain), byRoute(hyperv1.OIDC, ""),
		byRoute(hyperv1.Konnectivity, "konnectivity."+clusterDomain), byRoute(hyperv1.Ignition, "ignition."+clusterDomain),
	}
}

// behaviour F2; case C43; hazards 1, 2.
func TestEndpointMismatch(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	usual, port := int32(6443), int32(7443)
	prefix := "east"
	none := ""
	replace := func(m hyperv1.ServicePublishingStrategyMapping) func(*hyperv1.HostedCluster) {
		return func(h *hyperv1.HostedCluster) {
			for i := range h.Spec.Services {
				if h.Spec.Services[i].Service == m.Service {
					h.Spec.Services[i] = m
				}
			}
		}
	}
	ingress := func(apps string) func(*hyperv1.HostedCluster) {
		return func(h *hyperv1.HostedCluster) {
			h.Spec.Configuration = &hyperv1.ClusterConfiguration{Ingress: &configv1.IngressSpec{AppsDomain: apps}}
		}
	}
	passthrough := func(h *hyperv1.HostedCluster) {
		h.Spec.Platform.Kubevirt = &hyperv1.KubevirtPlatformSpec{BaseDomainPassthrough: &yes}
	}
	nodePort := hyperv1.ServicePublishingStrategyMapping{Service: hyperv1.APIServer}
	nodePort.Type, nodePort.NodePort = hyperv1.NodePort, &hyperv1.NodePortPublishingStrategy{Address: "198.51.100.9", Port: 30443}
	tests := []struct {
		name   string
		change []func(*hyperv1.HostedCluster)
		reason string
		want   string
	}{
		{"everything as it is served; OIDC without a hostname is none", nil, "AsExpected", ""},
		{"a name in other letters and with a dot is the same", []func(*hyperv1.HostedCluster){replace(byRoute(hyperv1.OAuthServer, "OAuth."+clusterDomain+"."))}, "AsExpected", ""},
		{"konnectivity without a hostname", []func(*hyperv1.HostedCluster){replace(byRoute(hyperv1.Konnectivity, ""))}, "EndpointMismatch", "Konnectivity has no hostname and falls back to the hub's own, konnectivity." + clusterDomain + " is served"},
		{"ignition elsewhere", []func(*hyperv1.HostedCluster){replace(byRoute(hyperv1.Ignition, "ignition.hub.example.com"))}, "EndpointMismatch", "Ignition is published as ignition.hub.example.com, ignition." + clusterDomain + " is served"},
		{"the API as a Route", []func(*hyperv1.HostedCluster){replace(byRoute(hyperv1.APIServer, "api."+clusterDomain))}, "EndpointMismatch", "APIServer is published as a Route, on port 443"},
		{"the API on a node's port", []func(*hyperv1.HostedCluster){replace(nodePort)}, "EndpointMismatch", "APIServer is published as 198.51.100.9:30443"},
		{"the API on another port", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) {
			h.Spec.Networking.APIServer = &hyperv1.APIServerNetworking{Port: &port}
		}}, "EndpointMismatch", "networking.apiServer.port is 7443"},
		{"the API on its usual port", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) {
			h.Spec.Networking.APIServer = &hyperv1.APIServerNetworking{Port: &usual}
		}}, "AsExpected", ""},
		{"settings of the API without a port", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) {
			h.Spec.Networking.APIServer = &hyperv1.APIServerNetworking{}
		}}, "AsExpected", ""},
		{"no services at all", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) { h.Spec.Services = nil }}, "EndpointMismatch", "APIServer has no hostname"},
		{"the same base domain", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) { h.Spec.DNS.BaseDomain = "clusters.example.com" }}, "AsExpected", ""},
		{"another base domain", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) { h.Spec.DNS.BaseDomain = "other.example.com" }}, "EndpointMismatch", "dns.baseDomain makes the cluster's domain example-hcp-a.other.example.com, " + clusterDomain + " is served"},
		{"a prefix of the base domain", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) {
			h.Spec.DNS.BaseDomain, h.Spec.DNS.BaseDomainPrefix = "clusters.example.com", &prefix
		}}, "EndpointMismatch", "east.clusters.example.com"},
		{"no prefix of the base domain", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) {
			h.Spec.DNS.BaseDomain, h.Spec.DNS.BaseDomainPrefix = clusterDomain, &none
		}}, "AsExpected", ""},
		{"the apps domain that is served", []func(*hyperv1.HostedCluster){ingress("apps." + clusterDomain)}, "AsExpected", ""},
		{"another apps domain", []func(*hyperv1.HostedCluster){ingress("apps.example.com")}, "EndpointMismatch", "configuration.ingress.appsDomain is apps.example.com, apps." + clusterDomain + " is served"},
		{"a KubeVirt platform that says nothing of baseDomainPassthrough", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) {
			h.Spec.Platform.Kubevirt = &hyperv1.KubevirtPlatformSpec{}
		}}, "AsExpected", ""},
		{"baseDomainPassthrough that is off", []func(*hyperv1.HostedCluster){func(h *hyperv1.HostedCluster) {
			h.Spec.Platform.Kubevirt = &hyperv1.KubevirtPlatformSpec{BaseDomainPassthrough: &no}
		}}, "AsExpected", ""},
		{"baseDomainPassthrough alone", []func(*hyperv1.HostedCluster){passthrough}, "BaseDomainPassthrough", "baseDomainPassthrough is true"},
		{"baseDomainPassthrough with a domain of its own", []func(*hyperv1.HostedCluster){passthrough, ingress("apps." + clusterDomain)}, "AsExpected", ""},
		{"baseDomainPassthrough beside another fault", []func(*hyperv1.HostedCluster){passthrough, replace(byRoute(hyperv1.Ignition, ""))}, "EndpointMismatch", "baseDomainPassthrough is true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world(func(w *facts.World) {
				good(&w.HostedClusters[0])
				for _, f := range tt.change {
					f(&w.HostedClusters[0])
				}
			})
			c := conditionOf(t, facts.ForAttachment(w, attachment(), noon), v1alpha1.ConditionEndpointMismatch)
			require.Equal(t, tt.reason, c.Reason)
			require.Contains(t, c.Message, tt.want)
			require.Equal(t, tt.reason != "AsExpected", c.Status == "True")
		})
	}
}

// behaviour F2; case C43; hazard 240.
func TestClusterProxyBypassesVLAN(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, proxy, noProxy string
		want                 bool
	}{
		{"no proxy", "", "", false},
		{"a proxy without exceptions", "http://198.51.100.80:3128", "", true},
		{"exceptions for others", "http://198.51.100.80:3128", ".svc,.cluster.local,198.51.100.0/24", true},
		{"the API by name", "http://198.51.100.80:3128", ".svc, API." + clusterDomain, false},
		{"the API by name and port", "http://198.51.100.80:3128", "api." + clusterDomain + ":6443", false},
		{"the domain", "http://198.51.100.80:3128", "." + clusterDomain, false},
		{"a parent domain", "http://198.51.100.80:3128", "example.com", false},
		{"a domain that only ends alike", "http://198.51.100.80:3128", "xample.com", true},
		{"everything", "http://198.51.100.80:3128", "*", false},
		{"the text kubernetes", "http://198.51.100.80:3128", "kubernetes.default", false},
		{"the Service network", "http://198.51.100.80:3128", "172.31.0.0/16", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world(func(w *facts.World) {
				h := &w.HostedClusters[0]
				good(h)
				h.Spec.Networking.ServiceNetwork = []hyperv1.ServiceNetworkEntry{{}}
				require.NoError(t, h.Spec.Networking.ServiceNetwork[0].CIDR.UnmarshalJSON([]byte(`"172.31.0.0/16"`)))
				h.Spec.Configuration = &hyperv1.ClusterConfiguration{Proxy: &configv1.ProxySpec{HTTPSProxy: tt.proxy, NoProxy: tt.noProxy}}
			})
			c := conditionOf(t, facts.ForAttachment(w, attachment(), noon), v1alpha1.ConditionClusterProxyBypassesVLAN)
			require.Equal(t, tt.want, c.Status == "True")
			if tt.want {
				require.Contains(t, c.Message, "add api."+clusterDomain, "the message names the entry that is missing")
			}
		})
	}
}
