// Package app wires the server together: options, construction, running.
//
// It refuses to start with options that contradict each other, and it never
// ends because something else is away: not the operator, not the API server,
// not the device.
package app
