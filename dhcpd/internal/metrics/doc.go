// Package metrics holds the Prometheus metrics of the server.
//
// It refuses labels that grow with the clients: no hardware address, host name
// or IP address is ever one.
package metrics
