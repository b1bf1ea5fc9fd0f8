// Package packaging makes what a cluster installs oooi from: container images,
// the OLM bundle, the file-based catalog and the kustomizations that name the
// images. bundle/components.yaml is the one table that all of it is made from.
//
// It refuses a table with an image that has no digest, and it reads nothing of
// the machine but the repository and the binaries that it is told of.
//
// Invariant: equal input gives equal bytes, so that a bundle in the repository
// can be compared with one that is made anew, and two builds of an image have
// one digest.
package packaging
