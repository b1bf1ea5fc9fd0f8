// Package envoy builds Envoy's protobuf messages, one constructor per message,
// with the settings that hold for every proxy of ours.
//
// It decides how a connection is treated (timeouts, buffers, keepalive, limits)
// and refuses to decide where it goes: that is translate's. Invariant: equal
// arguments give equal bytes, and no constructor reads anything but its
// arguments.
package envoy
