// Package lab builds small networks out of Linux namespaces, for the demo, the
// end-to-end tests and the benchmarks.
//
// A [Host] is a network, mount, process, IPC and UTS namespace of its own: a
// pod, a worker VM, a switch. It has a fresh /proc and /sys, an empty /run and
// an /etc/resolv.conf that nobody else sees. Hosts are joined by bridges and
// veth pairs, and programs run in them as on a machine.
//
// The package refuses to touch the machine it runs on: no link, address, rule,
// mount or name ever exists outside a host, so two labs never collide and the
// addresses of a lab may be the machine's own.
//
// Its invariant: a host lives exactly as long as the process that made it.
// Each host's first process waits on a pipe from its maker; when the maker ends
// in whatever way, SIGKILL included, that process ends too, and the kernel then
// takes down every process, mount and link of the host.
package lab
