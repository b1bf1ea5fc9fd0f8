package vmi

import (
	"os"
	"path/filepath"
	"testing"
)

// hazards 5, 16: whatever a file of machines holds, reading it ends, and what
// is claimed lies in the network.
func FuzzMachines(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("kind: List\nitems: [{kind: List, items: [{kind: VirtualMachine}]}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		flt := newFilter(fixture())
		machines, err := flt.parse(b)
		if err != nil {
			return
		}
		x := build(machines, nil, nil)
		for _, c := range x.Claims() {
			if !flt.prefix.Contains(c.IP) || len(x.VMs(c.MAC)) == 0 {
				t.Fatalf("a claim of nobody: %+v", c)
			}
		}
	})
}
