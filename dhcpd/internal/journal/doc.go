// Package journal keeps the lease table's records on disk: an append-only
// file that is synced before an answer leaves, and rewritten when it has
// grown.
//
// It refuses to call anything stored that was not synced, and to throw away a
// file that it cannot read to its end: that is kept aside under another name.
// It never fails to open: a directory that cannot be written to leaves the
// journal broken, and Compact mends it once the cause is gone.
//
// Invariant: after a crash at any instant the file holds every record of every
// Commit that returned, in order, and possibly some of the one under way.
package journal
