// Package contract holds the tests of what crosses a module's border: the CRDs,
// the status that agents write, the snapshots that they read, and the numbers of
// the protocol's fields.
//
// They run the binaries and a real API server and import no module, as no module
// imports another.
package contract
