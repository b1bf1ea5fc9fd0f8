// Package app wires the manager together: snapshots in, xDS out, status up.
//
// It holds no rule of routing and no form of Envoy's; it decides only when.
// Invariant: whatever fails, the configuration in force stays in force, and one
// goroutine owns everything that a decision depends on.
package app
