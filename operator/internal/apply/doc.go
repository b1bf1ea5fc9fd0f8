// Package apply is the only writer of objects: server-side apply under one
// field owner, and pruning by labels against the desired set.
//
// It refuses to take over an object that does not carry the set's labels, and
// to delete one. Invariant: applying an unchanged set to an unchanged world
// sends no request, and a field that the set does not name is left alone.
package apply
