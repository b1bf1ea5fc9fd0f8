// Package offline plans and renders from objects in files: what the operator
// would make of them, without a cluster.
//
// It uses the very same functions as the controllers (facts, plan, render,
// agent) and applies the defaults that the API server would. It refuses to
// validate what a schema validates: what the planner does not understand it says
// itself. Invariant: equal files give equal bytes.
package offline
