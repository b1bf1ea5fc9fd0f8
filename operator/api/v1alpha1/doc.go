// Package v1alpha1 is the API of oooi: Infra and InfraClusterAttachment, which
// people write, and DHCPServer, DNSServer and ProxyServer, which the operator
// makes from them and which people may also write alone.
//
// It holds types and nothing else: validation is CEL in the CRDs and again in
// the planner, so that an API server without the CEL rules is as safe.
//
// +kubebuilder:object:generate=true
// +groupName=hostedcluster.densityops.com
package v1alpha1
