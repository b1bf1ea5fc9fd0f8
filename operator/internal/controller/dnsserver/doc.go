// Package dnsserver says what is particular about a DNSServer: its pod needs no
// capability, so it never gets a fence on OpenShift. The controller itself is
// package workload.
package dnsserver
