// Package status is the only writer of status. A pass writes once, by
// server-side apply under the writer's own field owner, and only when what the
// writer owns has changed.
//
// It refuses to write a field that is not the writer's: an agent's stanza, or a
// condition of another controller. Invariant: an unchanged status costs no
// request.
package status
