// Package config turns a snapshot into the typed configuration of the server.
//
// It refuses a snapshot that the server could not serve at all: no network, or
// a server address outside of it. Everything smaller that is wrong becomes a
// Problem, is left out, and the rest is served.
//
// Invariant: a Config is complete and consistent; nothing that it holds needs
// checking again, and it is never changed once made.
package config
