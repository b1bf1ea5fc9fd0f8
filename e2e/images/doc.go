// Package images makes container images from static binaries, without a
// container engine: one layer of directories, one layer a file group, an OCI
// configuration. It refuses to look at anything of the machine but the files
// that it is told of.
//
// Invariant: equal content gives an equal digest, on every machine, whenever
// it is built; no time, owner or order of the file system goes in.
package images
