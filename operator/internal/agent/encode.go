package agent

import (
	agentpb "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// EncodeDHCP makes the snapshot of a DHCPServer. An error names the field that
// cannot be served.
func EncodeDHCP(child *v1alpha1.DHCPServer) (*agentpb.Snapshot, error) { return nil, nil }

// EncodeDNS makes the snapshot of a DNSServer.
func EncodeDNS(child *v1alpha1.DNSServer) (*agentpb.Snapshot, error) { return nil, nil }

// EncodeProxy makes the snapshot of a ProxyServer.
func EncodeProxy(child *v1alpha1.ProxyServer) (*agentpb.Snapshot, error) { return nil, nil }

// File is the snapshot as the child's ConfigMap holds it: protojson, gzipped.
func File(snapshot *agentpb.Snapshot) ([]byte, error) { return nil, nil }
