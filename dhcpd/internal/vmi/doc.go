// Package vmi knows the virtual machines of this network: which machine has
// which hardware address, and which machines exist.
//
// It refuses to look anything up while a message is handled: it watches, and
// makes an immutable Index whenever something has changed. An interface that
// is not on this network does not count, whatever its hardware address.
//
// Invariant: an Index says Gone only of a machine whose namespace was read
// completely.
package vmi
