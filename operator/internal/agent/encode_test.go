package agent_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentpb "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/agent"
)

func dhcpServer(change ...func(*v1alpha1.DHCPServerSpec)) *v1alpha1.DHCPServer {
	d := &v1alpha1.DHCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "vlan200", UID: "uid-dhcp", Generation: 3}}
	d.Spec.NetworkConfig = v1alpha1.DHCPNetworkConfig{CIDR: "192.0.2.0/24", Gateway: "192.0.2.1", ServerIP: "192.0.2.2", NetworkAttachmentName: "vlan200"}
	d.Spec.LeaseConfig = v1alpha1.DHCPLeaseConfig{RangeStart: "192.0.2.100", RangeEnd: "192.0.2.199"}
	for _, f := range change {
		f(&d.Spec)
	}
	return d
}

func dnsServer(change ...func(*v1alpha1.DNSServerSpec)) *v1alpha1.DNSServer {
	d := &v1alpha1.DNSServer{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "vlan200"}}
	d.Spec.NetworkConfig = v1alpha1.DNSNetworkConfig{CIDR: "192.0.2.0/24", ServerIP: "192.0.2.3"}
	for _, f := range change {
		f(&d.Spec)
	}
	return d
}

func proxyServer(change ...func(*v1alpha1.ProxyServerSpec)) *v1alpha1.ProxyServer {
	p := &v1alpha1.ProxyServer{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "vlan200"}}
	p.Spec.NetworkConfig = v1alpha1.ProxyNetworkConfig{CIDR: "192.0.2.0/24", ServerIP: "192.0.2.4"}
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

// behaviour A3: a child alone is served with the schema's defaults.
func TestStandaloneDHCPServer(t *testing.T) {
	t.Parallel()
	got, err := agent.EncodeDHCP(dhcpServer(func(s *v1alpha1.DHCPServerSpec) {
		s.Options = []v1alpha1.DHCPOption{{Code: 42, Value: "192.0.2.9, 192.0.2.10"}, {Code: 43, Value: "0x01ff"}, {Code: 67, Value: "pxelinux.0"}}
		s.Reservations = []v1alpha1.DHCPReservation{{MACAddress: "02-00-5E-10-00-0A", IP: "192.0.2.50", Hostname: "printer"}}
		s.ExcludedRanges = []v1alpha1.IPv4Range{"192.0.2.120", "192.0.2.128/30", "192.0.2.140 - 192.0.2.150"}
		s.UnknownClients = v1alpha1.UnknownClientsIgnore
	}))
	require.NoError(t, err)
	want := &agentpb.DHCPConfig{
		Cidr: "192.0.2.0/24", Gateway: "192.0.2.1", ServerIp: "192.0.2.2", LeaseSeconds: 3600,
		Range: &agentpb.AddressRange{Start: "192.0.2.100", End: "192.0.2.199"}, UnknownClients: agentpb.UnknownClients_UNKNOWN_CLIENTS_IGNORE,
		Options:      []*agentpb.DHCPOption{{Code: 42, Value: []byte{192, 0, 2, 9, 192, 0, 2, 10}}, {Code: 43, Value: []byte{1, 255}}, {Code: 67, Value: []byte("pxelinux.0")}},
		Reservations: []*agentpb.DHCPReservation{{MacAddress: "02:00:5e:10:00:0a", Ip: "192.0.2.50", Hostname: "printer"}},
		ExcludedRanges: []*agentpb.AddressRange{
			{Start: "192.0.2.120", End: "192.0.2.120"}, {Start: "192.0.2.128", End: "192.0.2.131"}, {Start: "192.0.2.140", End: "192.0.2.150"},
		},
		NetworkAttachments: []*agentpb.NetworkAttachment{{Namespace: "lab", Name: "vlan200"}}, VmiNamespaces: []string{"lab"},
	}
	require.Empty(t, cmp.Diff(want, got.GetDhcp(), protocmp.Transform()))
	require.Empty(t, cmp.Diff(&agentpb.Child{Namespace: "lab", Name: "vlan200", Uid: "uid-dhcp", Generation: 3}, got.GetChild(), protocmp.Transform()))
}

// behaviours A4, B13: how names are put together is not the agent's business.
func TestNamesOfOneRecordAreRecordsOfTheirOwn(t *testing.T) {
	t.Parallel()
	forward, none := v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyForward}, v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyNoData}
	together, err := agent.Encode(dnsServer(func(s *v1alpha1.DNSServerSpec) {
		s.Records = []v1alpha1.DNSRecord{
			{Name: "c.example.com", MoreNames: []string{"a.example.com", "*.d.example.com"}, VLAN: none, Pod: forward},
			{Name: "b.example.com", VLAN: none, Pod: none},
		}
	}))
	require.NoError(t, err)
	var names []string
	for _, r := range together.GetDns().GetRecords() {
		names = append(names, r.GetName())
	}
	require.Equal(t, []string{"*.d.example.com", "a.example.com", "b.example.com", "c.example.com"}, names)
	alone, err := agent.Encode(dnsServer(func(s *v1alpha1.DNSServerSpec) {
		s.Records = []v1alpha1.DNSRecord{
			{Name: "*.d.example.com", VLAN: none, Pod: forward},
			{Name: "a.example.com", VLAN: none, Pod: forward},
			{Name: "b.example.com", VLAN: none, Pod: none},
			{Name: "c.example.com", VLAN: none, Pod: forward},
		}
	}))
	require.NoError(t, err)
	require.Equal(t, alone.GetVersion(), together.GetVersion())
}

// behaviours A4, E9: what the API server let through and no agent could serve is
// refused, and the field is named.
func TestWhatCannotBeServed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		child client.Object
		want  string
	}{
		{"a DHCP server with host bits in its CIDR", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.NetworkConfig.CIDR = "192.0.2.1/24" }), "networkConfig.cidr"},
		{"a DHCP server outside its CIDR", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.NetworkConfig.ServerIP = "198.51.100.2" }), "networkConfig.serverIP 198.51.100.2"},
		{"a DHCP server at its gateway", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.NetworkConfig.Gateway = "192.0.2.2" }), "must differ from networkConfig.gateway"},
		{"a gateway outside", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.NetworkConfig.Gateway = "198.51.100.1" }), "networkConfig.gateway 198.51.100.1"},
		{"a range that is reversed", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.LeaseConfig.RangeEnd = "192.0.2.50" }), "leaseConfig.rangeStart 192.0.2.100 must not be after leaseConfig.rangeEnd 192.0.2.50"},
		{"a range that holds the server", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.LeaseConfig.RangeStart = "192.0.2.2" }), "must not lie in the range"},
		{"a range that holds the broadcast address", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.LeaseConfig.RangeEnd = "192.0.2.255" }), "leaseConfig.rangeEnd 192.0.2.255"},
		{"a lease of no time", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.LeaseConfig.LeaseTime = "1s" }), "leaseConfig.leaseTime"},
		{"a resolver that is a name", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.NetworkConfig.DNSServers = []v1alpha1.IPv4{"dns"} }), "networkConfig.dnsServers"},
		{"an option of too many bytes", dhcpServer(func(s *v1alpha1.DHCPServerSpec) {
			s.Options = []v1alpha1.DHCPOption{{Code: 67, Value: string(bytes.Repeat([]byte("x"), 256))}}
		}), "options code 67"},
		{"an option of no bytes", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.Options = []v1alpha1.DHCPOption{{Code: 67, Value: "0x"}} }), "options code 67"},
		{"an excluded range that is none", dhcpServer(func(s *v1alpha1.DHCPServerSpec) { s.ExcludedRanges = []v1alpha1.IPv4Range{"192.0.2.999"} }), "excludedRanges"},
		{"a reservation outside", dhcpServer(func(s *v1alpha1.DHCPServerSpec) {
			s.Reservations = []v1alpha1.DHCPReservation{{MACAddress: "02:00:5e:10:00:0a", IP: "198.51.100.9"}}
		}), "reservations"},
		{"a DNS server at the broadcast address", dnsServer(func(s *v1alpha1.DNSServerSpec) { s.NetworkConfig.ServerIP = "192.0.2.255" }), "networkConfig.serverIP"},
		{"an answer without an address", dnsServer(func(s *v1alpha1.DNSServerSpec) {
			s.Records = []v1alpha1.DNSRecord{{Name: "a.example.com", VLAN: v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyAnswer}, Pod: v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyForward}}}
		}), "addresses belong to policy Answer"},
		{"an upper-case name", dnsServer(func(s *v1alpha1.DNSServerSpec) {
			s.Records = []v1alpha1.DNSRecord{{Name: "A.example.com", VLAN: v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyNoData}, Pod: v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyNoData}}}
		}), "records"},
		{"an upper-case name among more", dnsServer(func(s *v1alpha1.DNSServerSpec) {
			s.Records = []v1alpha1.DNSRecord{{Name: "a.example.com", MoreNames: []string{"B.example.com"}, VLAN: v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyNoData}, Pod: v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyNoData}}}
		}), `records: "B.example.com"`},
		{"too many more names", dnsServer(func(s *v1alpha1.DNSServerSpec) {
			s.Records = []v1alpha1.DNSRecord{{Name: "a.example.com", MoreNames: slices.Repeat([]string{"b.example.com"}, 65), VLAN: v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyNoData}, Pod: v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyNoData}}}
		}), "records: a.example.com: 65 moreNames, 64 are possible"},
		{"an upstream that is a name", dnsServer(func(s *v1alpha1.DNSServerSpec) { s.UpstreamServers = []v1alpha1.Upstream{"dns.example.com"} }), "upstreamServers"},
		{"a backend name twice", proxyServer(func(s *v1alpha1.ProxyServerSpec) {
			s.Backends = []v1alpha1.ProxyBackend{{Name: "a", Protocol: "TLS", Port: 443}, {Name: "a", Protocol: "TLS", Port: 443}}
		}), "the name a is there twice"},
		{"HTTP without hostnames", proxyServer(func(s *v1alpha1.ProxyServerSpec) {
			s.Backends = []v1alpha1.ProxyBackend{{Name: "a", Protocol: "HTTP", Port: 80}}
		}), "hostnames are required"},
		{"TCP with hostnames", proxyServer(func(s *v1alpha1.ProxyServerSpec) {
			s.Backends = []v1alpha1.ProxyBackend{{Name: "a", Protocol: "TCP", Port: 443, Hostnames: []string{"x.example.com"}}}
		}), "hostnames have no meaning"},
		{"a partial wildcard", proxyServer(func(s *v1alpha1.ProxyServerSpec) {
			s.Backends = []v1alpha1.ProxyBackend{{Name: "a", Protocol: "TLS", Port: 443, Hostnames: []string{"*foo.example.com"}}}
		}), "must be a lower-case DNS name or a wildcard"},
		{"every source", proxyServer(func(s *v1alpha1.ProxyServerSpec) {
			s.Backends = []v1alpha1.ProxyBackend{{Name: "a", Protocol: "TCP", Port: 443, SourcePrefixRanges: []string{"0.0.0.0/0"}}}
		}), "must be an IPv4 network"},
		{"an endpoint of two kinds", proxyServer(func(s *v1alpha1.ProxyServerSpec) {
			s.Backends = []v1alpha1.ProxyBackend{{Name: "a", Protocol: "TCP", Port: 443, Endpoints: []v1alpha1.ProxyEndpoint{{IP: "192.0.2.9", Hostname: "x"}}}}
		}), "exactly one of ip and hostname"},
		{"what is no child", &v1alpha1.Infra{}, "no snapshot is made"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := agent.Encode(tt.child)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// behaviour E9; hazard 187: the version is of the content alone.
func TestVersionIsOfTheContent(t *testing.T) {
	t.Parallel()
	one, err := agent.Encode(dnsServer())
	require.NoError(t, err)
	other := dnsServer()
	other.Name, other.UID, other.Generation = "elsewhere", "another", 9
	two, err := agent.Encode(other)
	require.NoError(t, err)
	require.Equal(t, one.GetVersion(), two.GetVersion(), "another child with equal content")
	three, err := agent.Encode(dnsServer(func(s *v1alpha1.DNSServerSpec) { s.TTLSeconds = 10 }))
	require.NoError(t, err)
	require.NotEqual(t, one.GetVersion(), three.GetVersion())

	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(one.GetDns())
	require.NoError(t, err)
	sum := sha256.Sum256(raw)
	require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), one.GetVersion(), "as the agents compute it for a file without one")
}

// behaviour A9: the file is gzipped protojson, the same bytes every time.
func TestFileIsTheSnapshot(t *testing.T) {
	t.Parallel()
	snapshot, err := agent.Encode(proxyServer(func(s *v1alpha1.ProxyServerSpec) {
		s.Backends = []v1alpha1.ProxyBackend{{Name: "a", Protocol: "TLS", Port: 443, Hostnames: []string{"a.example.com"}, PodSide: true, Endpoints: []v1alpha1.ProxyEndpoint{{IP: "172.30.10.1", Port: 6443}}}}
		s.ExternalListeners = []v1alpha1.ProxyExternalListener{{Name: "a", Port: 20000, Backends: []string{"a"}}, {Name: "held", Port: 20001}}
	}))
	require.NoError(t, err)
	require.Len(t, snapshot.GetProxy().GetExternalListeners(), 1, "one without backends only holds its port")
	file, err := agent.File(snapshot)
	require.NoError(t, err)
	for range 20 {
		again, err := agent.File(snapshot)
		require.NoError(t, err)
		require.Equal(t, file, again)
	}
	r, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	read := &agentpb.Snapshot{}
	require.NoError(t, protojson.Unmarshal(text, read))
	require.Empty(t, cmp.Diff(snapshot, read, protocmp.Transform()))
}
