// Package faults holds one fault a component, as patches. "make e2e-faults" puts
// each into a copy of this repository and shows that the test of the real cluster
// fails with it; the package's own test makes sure that each still applies.
package faults
