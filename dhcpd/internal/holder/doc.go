// Package holder decides which pod is the one that gives addresses, by a
// coordination Lease that the operator has made.
//
// It refuses to take a Lease that another pod still renews, and it never gives
// up one that it holds because the API server is away: the leases of a whole
// network hang on that, and another pod can only take over through the same
// API server.
//
// Invariant: whoever was told that it is the holder has written its name into
// the Lease, and is told otherwise only when another name stands there.
package holder
