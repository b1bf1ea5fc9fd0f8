// Package infra reconciles an Infra: it observes the whole world, plans, applies
// the three children, and reports on the Infra and, with the condition
// Programmed, on its attachments.
//
// It refuses to touch a hosted cluster, and a control plane but to take back what
// let its proxy in: that is the attachment controller's. Invariant: it is the only
// writer of the children (behaviour B1).
package infra
