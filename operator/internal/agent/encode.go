package agent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentpb "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// Encode makes the snapshot of a child. An error names the field that cannot be
// served: the API server may have let it through.
func Encode(child client.Object) (*agentpb.Snapshot, error) {
	switch c := child.(type) {
	case *v1alpha1.DHCPServer:
		return EncodeDHCP(c)
	case *v1alpha1.DNSServer:
		return EncodeDNS(c)
	case *v1alpha1.ProxyServer:
		return EncodeProxy(c)
	}
	return nil, fmt.Errorf("no snapshot is made of a %T", child)
}

// EncodeDHCP makes the snapshot of a DHCPServer.
func EncodeDHCP(child *v1alpha1.DHCPServer) (*agentpb.Snapshot, error) {
	if err := refuse(plan.CheckDHCPServer(child.Spec)); err != nil {
		return nil, err
	}
	s := child.Spec
	c := &agentpb.DHCPConfig{
		Cidr: string(s.NetworkConfig.CIDR), Gateway: string(s.NetworkConfig.Gateway), ServerIp: string(s.NetworkConfig.ServerIP),
		DnsServers: texts(s.NetworkConfig.DNSServers), Mtu: uint32(s.NetworkConfig.MTU),
		Range:          &agentpb.AddressRange{Start: string(s.LeaseConfig.RangeStart), End: string(s.LeaseConfig.RangeEnd)},
		LeaseSeconds:   uint32(plan.LeaseTime(s.LeaseConfig.LeaseTime).Seconds()),
		UnknownClients: agentpb.UnknownClients_UNKNOWN_CLIENTS_SERVE,
		Relays:         texts(s.Relays), VmiNamespaces: slices.Clone(s.VMINamespaces),
	}
	if s.UnknownClients == v1alpha1.UnknownClientsIgnore {
		c.UnknownClients = agentpb.UnknownClients_UNKNOWN_CLIENTS_IGNORE
	}
	if err := encodeLists(s, c); err != nil {
		return nil, err
	}
	for _, n := range s.NetworkAttachments {
		c.NetworkAttachments = append(c.NetworkAttachments, &agentpb.NetworkAttachment{Namespace: string(n.Namespace), Name: string(n.Name)})
	}
	if len(c.NetworkAttachments) == 0 && s.NetworkConfig.NetworkAttachmentName != "" {
		c.NetworkAttachments = []*agentpb.NetworkAttachment{{
			Namespace: orElse(string(s.NetworkConfig.NetworkAttachmentNamespace), child.Namespace), Name: string(s.NetworkConfig.NetworkAttachmentName),
		}}
	}
	if len(c.VmiNamespaces) == 0 && child.Namespace != "" {
		c.VmiNamespaces = []string{child.Namespace}
	}
	return seal(child, c, &agentpb.Snapshot{Config: &agentpb.Snapshot_Dhcp{Dhcp: c}})
}

// encodeLists adds what is parsed entry by entry.
func encodeLists(s v1alpha1.DHCPServerSpec, c *agentpb.DHCPConfig) error {
	for _, e := range s.ExcludedRanges {
		r, err := plan.ParseRange(string(e))
		if err != nil {
			return err
		}
		c.ExcludedRanges = append(c.ExcludedRanges, &agentpb.AddressRange{Start: r.First.String(), End: r.Last.String()})
	}
	for _, o := range s.Options {
		value, err := plan.OptionBytes(o)
		if err != nil {
			return err
		}
		c.Options = append(c.Options, &agentpb.DHCPOption{Code: uint32(o.Code), Value: value})
	}
	for _, r := range s.Reservations {
		mac, err := plan.ParseMAC(r.MACAddress)
		if err != nil {
			return err
		}
		c.Reservations = append(c.Reservations, &agentpb.DHCPReservation{MacAddress: mac.String(), Ip: string(r.IP), Hostname: r.Hostname})
	}
	return nil
}

// EncodeDNS makes the snapshot of a DNSServer.
func EncodeDNS(child *v1alpha1.DNSServer) (*agentpb.Snapshot, error) {
	if err := refuse(plan.CheckDNSServer(child.Spec)); err != nil {
		return nil, err
	}
	s := child.Spec
	c := &agentpb.DNSConfig{
		Cidr: string(s.NetworkConfig.CIDR), ServerIp: string(s.NetworkConfig.ServerIP),
		AdditionalSourceCidrs: texts(s.NetworkConfig.AdditionalSourceCIDRs), Zones: texts(s.Zones),
		Upstreams: texts(s.UpstreamServers), TtlSeconds: uint32(s.TTLSeconds), OwnAddresses: texts(s.OwnAddresses),
	}
	if c.TtlSeconds == 0 {
		c.TtlSeconds = 30
	}
	for _, r := range s.Records {
		for _, name := range r.Names() {
			c.Records = append(c.Records, &agentpb.DNSRecord{Name: name, Vlan: view(r.VLAN), Pod: view(r.Pod)})
		}
	}
	// The same names with the same answers are the same snapshot, however they are put together.
	slices.SortStableFunc(c.Records, func(a, b *agentpb.DNSRecord) int { return strings.Compare(a.GetName(), b.GetName()) })
	for _, h := range s.Hosts {
		c.Hosts = append(c.Hosts, &agentpb.DNSHost{Name: string(h.Name), Address: string(h.Address)})
	}
	return seal(child, c, &agentpb.Snapshot{Config: &agentpb.Snapshot_Dns{Dns: c}})
}

func view(v v1alpha1.DNSView) *agentpb.DNSView {
	policy := map[v1alpha1.DNSPolicy]agentpb.DNSPolicy{
		v1alpha1.DNSPolicyAnswer:  agentpb.DNSPolicy_DNS_POLICY_ANSWER,
		v1alpha1.DNSPolicyNoData:  agentpb.DNSPolicy_DNS_POLICY_NODATA,
		v1alpha1.DNSPolicyForward: agentpb.DNSPolicy_DNS_POLICY_FORWARD,
	}[v.Policy]
	return &agentpb.DNSView{Policy: policy, Addresses: texts(v.Addresses)}
}

// EncodeProxy makes the snapshot of a ProxyServer.
func EncodeProxy(child *v1alpha1.ProxyServer) (*agentpb.Snapshot, error) {
	if err := refuse(plan.CheckProxyServer(child.Spec)); err != nil {
		return nil, err
	}
	s := child.Spec
	c := &agentpb.ProxyConfig{
		ServerIp: string(s.NetworkConfig.ServerIP), Cidr: string(s.NetworkConfig.CIDR),
		ReservedIps: texts(s.NetworkConfig.ReservedIPs), Upstreams: texts(s.NetworkConfig.UpstreamServers),
		AccessLog: s.AccessLog == nil || *s.AccessLog, LogLevel: orElse(string(s.LogLevel), "info"),
	}
	for _, b := range s.Backends {
		c.Backends = append(c.Backends, backend(b))
	}
	for _, l := range s.ExternalListeners {
		// One without backends only holds its port.
		if len(l.Backends) > 0 {
			c.ExternalListeners = append(c.ExternalListeners, &agentpb.ProxyExternalListener{
				Name: string(l.Name), Port: uint32(l.Port), Backends: slices.Clone(l.Backends),
			})
		}
	}
	return seal(child, c, &agentpb.Snapshot{Config: &agentpb.Snapshot_Proxy{Proxy: c}})
}

func backend(b v1alpha1.ProxyBackend) *agentpb.ProxyBackend {
	out := &agentpb.ProxyBackend{
		Name: b.Name, Hostnames: slices.Clone(b.Hostnames), Port: uint32(b.Port), PodSide: b.PodSide,
		SourcePrefixRanges: slices.Clone(b.SourcePrefixRanges),
		Protocol: map[v1alpha1.ProxyProtocol]agentpb.ProxyProtocol{
			v1alpha1.ProxyProtocolTLS:  agentpb.ProxyProtocol_PROXY_PROTOCOL_TLS,
			v1alpha1.ProxyProtocolHTTP: agentpb.ProxyProtocol_PROXY_PROTOCOL_HTTP,
			v1alpha1.ProxyProtocolTCP:  agentpb.ProxyProtocol_PROXY_PROTOCOL_TCP,
		}[b.Protocol],
	}
	for _, e := range b.Endpoints {
		out.Endpoints = append(out.Endpoints, &agentpb.ProxyEndpoint{Ip: string(e.IP), Hostname: string(e.Hostname), Port: uint32(e.Port)})
	}
	return out
}

// seal adds the child and the version, which is of the configuration alone:
// equal content has an equal version on every replica and after every restart.
func seal(child client.Object, config proto.Message, s *agentpb.Snapshot) (*agentpb.Snapshot, error) {
	canonical, err := proto.MarshalOptions{Deterministic: true}.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the snapshot of %s/%s: %w", child.GetNamespace(), child.GetName(), err)
	}
	sum := sha256.Sum256(canonical)
	s.Version = "sha256:" + hex.EncodeToString(sum[:])
	s.Child = &agentpb.Child{
		Namespace: child.GetNamespace(), Name: child.GetName(), Uid: string(child.GetUID()), Generation: child.GetGeneration(),
	}
	return s, nil
}

// JSON is the snapshot as protojson. protojson spaces its output at random, so
// that nobody compares it; compact it to the same bytes every time.
func JSON(snapshot *agentpb.Snapshot) ([]byte, error) {
	raw, err := protojson.Marshal(snapshot)
	if err != nil {
		return nil, fmt.Errorf("encoding the snapshot: %w", err)
	}
	return compact(raw)
}

// File is the snapshot as the child's ConfigMap holds it: protojson, gzipped.
func File(snapshot *agentpb.Snapshot) ([]byte, error) {
	raw, err := JSON(snapshot)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(raw)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compressing the snapshot: %w", err)
	}
	return out.Bytes(), nil
}

// refuse is the first fault as an error.
func refuse(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return errors.New(faults[0])
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// texts are a list's values as plain strings.
func texts[S ~string](list []S) []string {
	var out []string
	for _, v := range list {
		out = append(out, string(v))
	}
	return out
}
