// Package dns proves the DNS server of one VLAN with real resolvers: our CoreDNS
// runs as it does in its pod, without any right, between a VLAN and a pod network
// made of network namespaces, and dig, kdig, glibc, musl, busybox, Go,
// systemd-resolved, unbound, Knot Resolver and another CoreDNS ask it.
//
// It imports no code of the modules: what is tested are binaries. It refuses to
// skip: where a resolver or the rights for namespaces are missing, it fails and
// says what to install.
package dns
