// Package world is the demo's world, in network namespaces: a VLAN, a pod
// network, hosted control planes, ingress routers, an upstream resolver, the
// three pods of oooi and the worker VMs.
//
// All that it builds follows from a directory of Kubernetes objects, the same
// that `operator render` plans from. It tells the VMs nothing: what they know
// they have from their lease.
package world
