// Package dhcp is the protocol: from a message and the lease table to the
// answer (RFC 2131, with RFC 2132, 3046, 3396, 5107 and 6842 where they touch
// it). It is pure: no clock, no socket.
//
// It refuses messages that are malformed, that use option overload, or whose
// hardware address is not that of one Ethernet station; it never answers what
// is meant for another server, nor a relay that is not named in the
// configuration; and it never acknowledges another address than the client
// asked for.
//
// Invariant: every answer is a complete BOOTP message of at least 300 bytes
// that fits what the client accepts.
package dhcp
