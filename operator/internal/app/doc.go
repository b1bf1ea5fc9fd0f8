// Package app is the operator's two programs: the controllers (serve) and the
// offline planner (render). It reads flags, files and the environment, wires,
// and refuses to decide: that is the work of the packages that it calls.
package app
