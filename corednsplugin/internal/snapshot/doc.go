// Package snapshot turns what the hub sends, or what a snapshot file holds,
// into strongly typed values that the DNS server can serve without looking
// again: parsed addresses, normalised names, sorted lists.
//
// It refuses a snapshot as a whole only where nothing can be served from it (no
// DNS configuration, a CIDR or server address that does not parse). Everything
// else that is wrong is left out and named as a Problem, so one attachment's
// fault never stops the others.
//
// The package is pure: no clock, no file, no socket. Equal content gives an
// equal Config, whatever the order of the lists in the snapshot.
package snapshot
