// Package agent is the operator's end of the contract with the agents: it turns
// a child resource into a snapshot, and serves snapshots over gRPC.
//
// It refuses a caller whose token is not the child's own ServiceAccount's, and
// it never sends part of a snapshot. Invariant: what is sent depends on the
// child resource alone, so every replica and every restart sends the same.
package agent
