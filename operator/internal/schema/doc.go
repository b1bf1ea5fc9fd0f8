// Package schema judges an object of our own kinds by the OpenAPI schema of its
// CRD, as an API server does before CEL: types, required fields, enumerations,
// bounds, patterns, and what is twice in a list that is a set or a map. Each
// fault names the place and the value.
//
// It refuses to know CEL: what the rules of the CRDs say, the planner says itself.
// Unknown fields are the decoder's. Invariant: kinds/ is the schemas of
// manifests/crd without words and rules; a test makes it anew and compares.
package schema
