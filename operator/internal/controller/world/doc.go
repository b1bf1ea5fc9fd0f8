// Package world reads what package facts works with: the only reads of the
// Infra and the attachment controller.
//
// It reads from the informer cache alone, but for the networks of the
// management cluster, which it looks up anew every few minutes. It refuses to
// judge. Invariant: a kind that is not served is reported as unreadable, never
// as empty.
package world
