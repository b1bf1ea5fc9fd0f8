// Package agent brings snapshots to the plugin: from the operator's stream, from
// a mounted file, and from the copy of the stream's last that it keeps on disk.
//
// It refuses to let anything that does not parse replace what serves: the last
// good snapshot stays, and a problem says why. It never needs the operator to
// go on.
//
// Invariant: which snapshot counts is decided in one place (choose), from the
// candidates alone.
package agent
