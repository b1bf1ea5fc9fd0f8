// Package lead says which replica may write, and lets it outlive an outage of the
// API server: a leader that cannot renew its lock does not end, its writes wait
// until the lock is renewed, or until somebody else holds it, and only then it
// ends. In between nobody can have taken its place without being seen.
//
// It refuses to let a write through on trust. Invariant: a write is sent only
// while the lock was known to be ours less than Window ago, which is less than a
// Lease takes to expire for others, and never after it was known to be another's.
//
// That there are never two is a Lease's promise. With the leader for life it is
// weaker: its lock is another's as soon as its pod is deleted, which the process may
// outlive; such a leader finds out within Retry while it can ask, and writes for up
// to Window while it cannot.
package lead
