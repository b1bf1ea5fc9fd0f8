// Package pods holds the tests of the whole product on a real Kubernetes.
// TestCluster is "make e2e": two nodes, OLM, two hosted clusters, and what happens
// to them from the installation to the end. TestPodsByHand proves the shape of the
// three pods without the operator: what testdata holds is what it renders, byte
// for byte. What is checked are packets from a VM on the VLAN.
package pods
