// Package proxyserver says what is particular about a ProxyServer: in force is
// what Envoy has accepted, not what its manager has heard of. The controller
// itself is package workload.
package proxyserver
