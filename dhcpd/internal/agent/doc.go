// Package agent gets snapshots: from a mounted file, from the operator's
// stream, and from the copy that it keeps of the stream's last.
//
// It refuses to prefer an older snapshot over a newer one: while the stream is
// connected it alone counts; else the higher generation of the same resource,
// at the same generation the stream's last, and where the file is of another
// resource, the file.
//
// Invariant: once a snapshot was had, there is always one in force, with
// neither operator nor API server needed.
package agent
