package images

import (
	"fmt"
	"path/filepath"
)

// nonRoot is the user of every image but the fence's, which needs uid 0 for
// its one capability.
const nonRoot = "65532:65532"

// Component is the image of one component of oooi. bin is the directory of the
// static binaries for arch.
func Component(name, arch, bin string) (Spec, error) {
	spec := Spec{Arch: arch, User: nonRoot, Entrypoint: []string{"/" + name}}
	binary := File{Path: "/" + name, Source: filepath.Join(bin, name), Mode: 0o755}
	switch name {
	case "operator", "coredns", "xds-manager":
	case "dhcpd":
		// A capability that the pod adds is lost when a non-root user's program
		// starts, unless the program's file asks for it.
		binary.Capability = CapNetRaw
	case "fence":
		spec.User = "0:0"
	default:
		return Spec{}, fmt.Errorf("no component is called %q", name)
	}
	spec.Files = []File{binary}
	return spec, nil
}

// multiarch is Debian's directory of an architecture's libraries, and the
// dynamic loader with its path.
var multiarch = map[string]struct{ lib, loader string }{
	"amd64": {"lib/x86_64-linux-gnu", "lib64/ld-linux-x86-64.so.2"},
	"arm64": {"lib/aarch64-linux-gnu", "lib/ld-linux-aarch64.so.1"},
}

// Envoy is the image of an Envoy binary that needs the C library alone. libc
// is a directory that holds Debian's libc6 for arch, unpacked.
func Envoy(arch, binary, libc string) (Spec, error) {
	paths, found := multiarch[arch]
	if !found {
		return Spec{}, fmt.Errorf("no libraries are known for architecture %q", arch)
	}
	spec := Spec{Arch: arch, User: nonRoot, Entrypoint: []string{"/usr/local/bin/envoy"}}
	spec.Files = []File{
		{Path: "/usr/local/bin/envoy", Source: binary, Mode: 0o755},
		{Path: "/" + paths.loader, Source: filepath.Join(libc, paths.lib, filepath.Base(paths.loader)), Mode: 0o755},
	}
	for _, library := range []string{"libc.so.6", "libm.so.6", "librt.so.1", "libdl.so.2", "libpthread.so.0"} {
		spec.Files = append(spec.Files, File{
			Path: "/" + filepath.Join(paths.lib, library), Source: filepath.Join(libc, paths.lib, library), Mode: 0o755,
		})
	}
	return spec, nil
}

// applets are what a shell script may call of busybox.
var applets = []string{
	"sh", "ash", "awk", "basename", "cat", "cp", "cut", "date", "df", "dirname", "du", "echo", "env", "find", "grep", "gzip", "head", "ls",
	"mkdir", "mv", "rm", "sed", "sleep", "sort", "tail", "tar", "test", "tr", "true", "wc", "xargs",
}

// MustGather is the image that "oc adm must-gather" runs: a shell under the
// names that oc calls, kubectl, and the script gather.
func MustGather(arch, busybox, kubectl, gather string) Spec {
	spec := Spec{Arch: arch, User: nonRoot, Entrypoint: []string{"/usr/bin/gather"}, Dirs: []Dir{{Path: "/must-gather", Mode: 0o777}}}
	spec.Files = []File{
		{Path: "/bin/busybox", Source: busybox, Mode: 0o755},
		// busybox has no applet of that name.
		{Path: "/bin/bash", Data: []byte("#!/bin/sh\nexec /bin/sh \"$@\"\n"), Mode: 0o755},
		{Path: "/usr/bin/kubectl", Source: kubectl, Mode: 0o755},
		{Path: "/usr/bin/oc", Link: "kubectl"},
		{Path: "/usr/bin/gather", Source: gather, Mode: 0o755},
	}
	for _, applet := range applets {
		spec.Files = append(spec.Files, File{Path: "/bin/" + applet, Link: "busybox"})
	}
	return spec
}
