// Package server moves messages between the VLAN and the handler.
//
// It refuses to answer on any other device than the one that has the server's
// address, to answer a frame that comes from another station than the message
// says, and to send an acknowledgement before its record is on disk.
//
// It works in turns: it reads what has arrived, handles it, stores all new
// records with one sync, and sends the answers. Known machines come first, and
// strangers' DISCOVERs last, each from a socket of its own; one goroutine does
// all of it, so the work is bounded whatever arrives. What the kernel cannot
// queue is lost, and clients ask again.
//
// Invariant: the table is only touched with the lock held, and records leave
// it for the journal before the lock is released.
package server
