// Package ingress carries out what package apps decides: it reads one hosted
// cluster, writes and removes the objects of *.apps in it, and records what it
// made in the attachment's status (behaviours G1 to G7).
//
// It refuses to remove anything that is not recorded with its UID. Invariant: a
// hosted cluster is written to only while the Infra records the attachment's
// range as its own.
package ingress
