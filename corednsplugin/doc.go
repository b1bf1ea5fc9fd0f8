// Package oooi is a CoreDNS plugin: split-horizon DNS for KubeVirt workers on an
// isolated VLAN whose hosted control planes run in the pod network.
//
// It answers the names that a snapshot owns, differently for the VLAN and for
// the pods, and hands everything else to the snapshot's upstreams through
// CoreDNS's own cache and forward. The snapshot comes from the operator's stream
// or from a file and is swapped as a whole: a change needs no reload, and no
// query is lost by it.
//
// What it refuses to do: answer a source that belongs to the other side of the
// socket that it used, forward a name that it owns or a reverse name inside the
// VLAN, forward to itself, fall back to a resolver that nobody named, let one
// source take all that may wait for the upstreams.
//
// Invariant: a serving state is immutable once it is stored. A query sees
// exactly one of them from its first to its last step, and the lookup and the
// answer from it allocate nothing.
package oooi
