// Package agent brings in the one snapshot that counts: from the operator's
// stream, from the mounted file, or from the state directory.
//
// It is the only package that knows the contract. It refuses to apply anything:
// what it hands out is parsed, complete, and chosen by one rule. While the
// stream is connected it alone counts; else the higher generation of the same
// resource, at the same generation the stream's last before the file; another
// resource is the file's.
//
// Invariant: no failure of the stream, the file or the disk ever takes the
// snapshot in force away.
package agent
