// Package policy keeps the NetworkPolicy allow-infrastructure of each
// control-plane namespace what the attachments that are admitted to it and served
// need together (behaviour B11), and removes it when there are none: also one whose
// attachment went while no operator ran.
//
// It refuses to touch a policy without our labels. Invariant: no peer of a
// policy is an Infra that does not exist.
package policy
