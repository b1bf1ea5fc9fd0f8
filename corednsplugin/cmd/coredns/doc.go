// Command coredns is CoreDNS with the oooi plugin and the few others that it
// needs. Without -conf it runs the Corefile that is built into it, which takes
// addresses and files from the environment or from the flags below, so that
//
//	coredns --snapshot dns.json
//
// is a whole DNS server on any Linux host.
package main
