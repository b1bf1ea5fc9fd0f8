// Package report writes what the server knows to its resource's status, and
// reads back what an earlier pod had written there.
//
// It refuses to write anything but status.agent, and to write over what
// another pod has written since it was read.
//
// Invariant: nothing is written when nothing has changed.
package report
