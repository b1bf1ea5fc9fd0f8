// Package report writes the manager's stanza of its own resource's status.
//
// It writes status.agent by server-side apply with its own field owner and
// refuses to touch anything else: conditions are the operator's. Invariant: an
// unchanged stanza is never written again, and a message holds nothing that
// changes by itself.
package report
