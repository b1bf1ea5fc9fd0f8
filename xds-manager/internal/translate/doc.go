// Package translate turns a validated table into Envoy's resources: which
// chains a listener has, what its matcher says, which cluster a chain leads to.
//
// It is a pure function of the table and of the few facts of the pod that no
// snapshot can hold. It refuses to publish what it did not check: Envoy accepts
// a chain whose cluster is missing and a matcher whose chain is missing, so a
// backend with a broken reference is excluded here and named in a Problem.
//
// Invariant: equal inputs give equal bytes, so an unchanged world has an
// unchanged version, whichever replica or restart computes it.
package translate
