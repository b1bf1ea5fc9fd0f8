// Package check holds what the demo wants to see, one check a line: what a
// worker VM, a stranger on the VLAN and a pod of the management cluster must
// reach, and what must be closed to them.
//
// A check is a rule of the product and not of its parts: it knows names,
// addresses and certificates, and nothing of how they came about.
package check
