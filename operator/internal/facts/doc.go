// Package facts turns Kubernetes objects into what package plan works with, and
// into what the attachment controller records.
//
// The controllers and `operator render` share it: both put the objects that they
// know into a World. It refuses to read or to keep anything; the time is an
// argument. One object that cannot be understood never hides another.
package facts
