// Package xds serves one Envoy with delta ADS (the incremental variant of the
// xDS protocol) and knows at every moment what that Envoy has accepted.
//
// It is no general control plane: one node, four rules. Clusters go first and
// listeners only once Envoy has acknowledged the clusters; a cluster that no
// listener needs goes one drain time after them. A listener travels alone, so
// that a rejected one holds up no other. What was rejected is not sent again
// unless it changed or a growing pause went by, and meanwhile the last good
// version stays in force. Nothing at all is sent before the first publication.
//
// Invariant: the session is a pure state machine of requests, publications and
// time; the server around it only moves messages.
package xds
