// Package routes is the intermediate form between a snapshot and Envoy: who
// may reach which backend by name, by source and by port.
//
// It takes parsed values and answers with validated ones. It refuses to know
// Kubernetes, the contract or Envoy, and it never fails as a whole because of
// one entry: an offending backend is excluded and named in a Problem.
//
// Invariant: after Validate no two routes of one port compete for the same
// (name, source), a scoped backend never becomes reachable by any source, and
// the result depends on the set of backends alone, never on their order.
package routes
