// Package offline plans and renders from objects in files: what the operator
// would make of them, without a cluster.
//
// It uses the very same functions as the controllers (facts, plan, render,
// agent) and applies the defaults that the API server would. It refuses unknown
// fields and versions of our own kinds, what their schemas refuse, and an object
// that is there twice; the CEL rules it leaves to the planner, which says itself
// what it does not understand. What a cluster alone knows is a note. Invariant:
// equal files give equal bytes.
package offline
