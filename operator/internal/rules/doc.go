// Package rules holds the suite of the validation rules of the API (behaviour
// A5): testdata has, for every rule of every CRD, an object that a real API server
// accepts and one that it rejects, and the message.
//
// It refuses to be imported: it is tests only. Invariant: a rule of a CRD that no
// case breaks fails the suite.
package rules
