// Package plan computes what the shared stack of an Infra shall be.
//
// For takes the whole world as it was observed and returns the three children's
// specs, what is excluded and why. It is total: what a user wrote wrong is a
// Problem in the Plan, never an error or a panic. It is deterministic and blind
// to order: the same facts in any order give the same Plan.
//
// It refuses to read anything: no clock, no client, no file. Facts come parsed
// (package facts); only what users declare is judged here, because a mistake is
// part of the Plan.
package plan
