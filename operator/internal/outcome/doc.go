// Package outcome says how a reconcile, or a step of one, ended: it waits for
// something, the user has to change something, or a call failed. It turns that
// into a condition's words and into what the work queue is told.
//
// It refuses to know clients, clocks and objects. Invariant: a message holds
// nothing that changes by itself (names that a server generates, times,
// resource versions), because a message that changes is a loop.
package outcome
