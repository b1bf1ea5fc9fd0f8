// Package dhcpserver says what is particular about a DHCPServer: it reads
// VirtualMachineInstances in other namespaces, and holds a coordination Lease.
// The controller itself is package workload.
package dhcpserver
