// Package report writes what the plugin knows into status.agent of its own
// DNSServer: one stanza, server-side applied with a field owner of its own.
//
// It refuses to write anything else: conditions are the operator's. It writes
// only when something changed, at most once a second.
//
// Invariant: an equal report is never written twice in a row.
package report
