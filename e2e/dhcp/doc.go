// Package dhcp runs dhcpd as its pod does, without root and with NET_RAW as a
// file capability, and real clients against it: busybox udhcpc, ISC dhclient,
// dhcpcd, systemd-networkd and NetworkManager, each through boot, renewal,
// rebinding, release and a boot with a remembered address; clients behind a
// relay; a hostile machine; and a process that is killed again and again.
//
// The cases' own messages it puts on the wire byte for byte, as dhcpd's module
// keeps them, and compares the whole answer, frame included, and what else the
// server's two devices, its store, its log, its metrics and its status show.
package dhcp
