// Package pods proves the shape of oooi's three pods on a real Kubernetes
// node: what testdata holds is what the operator renders, byte for byte, and
// the checks are packets from a VM on the VLAN.
package pods
