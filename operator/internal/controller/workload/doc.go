// Package workload reconciles a child resource (DHCPServer, DNSServer or
// ProxyServer) into its Deployment and what that needs, and says in words how
// its pod fares. The three child controllers are this one, each with its Kind.
//
// It refuses to change a pod template while another component rolls out, and to
// write what the agent of the child writes. Invariant: a pod template changes
// only when its inputs do (behaviour B13).
package workload
