// Package offline plans and renders from objects in files: what the operator
// would make of them, without a cluster.
//
// It uses the very same functions as the controllers (facts, plan, render,
// agent) and applies the defaults that the API server would. It refuses unknown
// fields and versions of our own kinds, and an object that is there twice; the
// rules of the schemas it leaves to the planner, which says itself what it does
// not understand. Invariant: equal files give equal bytes.
package offline
