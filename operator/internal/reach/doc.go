// Package reach knows whether the management cluster's API server answers, and
// lets requests wait while it does not: what is held goes on within two seconds of
// its return, where back-offs that have grown with the outage would take a minute
// and a half more, and a process that ends for want of an answer up to five.
//
// It refuses to decide what a request means: only a connection that cannot be
// made or breaks makes the API server count as away, no answer of its own does,
// not even that it is not ready (but for Wait, before there is anything to serve).
// Invariant: while it answers, a request passes without a further one.
package reach
