// Package golden compares what a test made with files below testdata, and writes
// them with -update.
//
// It refuses to leave a stale file behind: what a case no longer makes is
// deleted with -update, and is a failure without.
package golden
