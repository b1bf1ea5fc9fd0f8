package main

import "runtime/debug"

// Go's collector lets the heap grow to twice what lives in it, and gives back
// what was once needed late. The operator rests most of the time, and holds some
// 50 MB at 1000 attachments: half as much on top costs CPU only while it works.
// The soft limit keeps a burst below what the manifests give the pod (512 MiB).
const (
	collectAt   = 50
	memoryLimit = 448 << 20
)

// boundMemory sets them; GOGC and GOMEMLIMIT win where they are set.
func boundMemory(lookup func(string) (string, bool)) {
	if _, set := lookup("GOGC"); !set {
		debug.SetGCPercent(collectAt)
	}
	if _, set := lookup("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(memoryLimit)
	}
}
