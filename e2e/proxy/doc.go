// Package proxy proves the proxy of one VLAN with a real Envoy: xds-manager and
// Envoy run as they do in their pod, between a VLAN and a pod network made of
// network namespaces.
//
// It imports no code of the modules: what is tested are binaries. It refuses to
// skip: where Envoy or the rights for namespaces are missing, it fails and says
// what to install. Envoy is $ENVOY, else bin/tools/envoy of the repository.
package proxy
