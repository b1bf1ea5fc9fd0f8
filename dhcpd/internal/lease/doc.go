// Package lease holds the lease table: which client has which address, and
// which addresses nobody may have for now.
//
// It is a pure state machine. It has no clock, no socket and no disk: every
// call gets the time, and every change that must outlive the process is a
// Record that the caller stores before it answers the client. Each call costs
// the same whatever the number of leases.
//
// It refuses to give an address that is bound, set aside by a predecessor,
// quarantined or outside of the pool; to move a client that holds an address;
// to let a known virtual machine's address expire while that machine exists;
// and to let clients that are no known virtual machine take the last addresses.
//
// Invariant: at any time an address belongs to at most one hardware address,
// and a hardware address has at most one address.
//
// The allocation policy is policy.go alone.
package lease
