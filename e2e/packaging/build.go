package packaging

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Builder compiles what goes into the images.
type Builder struct {
	// Root is the repository.
	Root string
	// Out is where everything that is built ends up.
	Out string
	// Log takes the words of the programs that run.
	Log io.Writer
	// Prebuilt is a directory of programs, and of Envoy and libc6, that are not
	// built again: whoever gives it knows that they fit.
	Prebuilt string
}

// program is a Go program of the repository.
type program struct{ name, dir, pkg, tags string }

var programs = []program{
	{name: "operator", dir: "operator", pkg: "./cmd/operator"},
	{name: "dhcpd", dir: "dhcpd", pkg: "./cmd/dhcpd"},
	{name: "fence", dir: "dhcpd", pkg: "./cmd/fence"},
	{name: "coredns", dir: "corednsplugin", pkg: "./cmd/coredns"},
	{name: "xds-manager", dir: "xds-manager", pkg: "./cmd/xds-manager"},
	{
		name: "opm", dir: "e2e/tools/opm", pkg: "github.com/operator-framework/operator-registry/cmd/opm",
		tags: "json1,containers_image_openpgp",
	},
	{name: "kubectl", dir: "e2e/tools/kubernetes", pkg: "k8s.io/kubernetes/cmd/kubectl"},
	{name: "grpc-health-probe", dir: "e2e/tools/grpc-health-probe", pkg: "github.com/grpc-ecosystem/grpc-health-probe"},
}

// bin is the directory of the binaries of an architecture.
func (b Builder) bin(arch string) string {
	if b.Prebuilt != "" {
		return b.Prebuilt
	}
	return filepath.Join(b.Out, "build", arch)
}

// Program compiles one program for an architecture. Each module is built alone,
// as it is from its tag, and nothing of this machine's goes in.
func (b Builder) Program(ctx context.Context, name, arch string) (string, error) {
	for _, p := range programs {
		if p.name != name {
			continue
		}
		to := filepath.Join(b.bin(arch), name)
		if b.Prebuilt != "" {
			return to, nil
		}
		args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", to}
		if p.tags != "" {
			args = append(args, "-tags", p.tags)
		}
		return to, b.run(ctx, filepath.Join(b.Root, p.dir), []string{
			"GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN=local", "GOEXPERIMENT=",
		}, "go", append(args, p.pkg)...)
	}
	return "", fmt.Errorf("no program is called %q", name)
}

// Envoy fetches the pinned Envoy and the C library that it needs.
func (b Builder) Envoy(ctx context.Context, arch string) (binary, libc string, err error) {
	scripts := filepath.Join(b.Root, "e2e/tools/scripts")
	binary, libc = filepath.Join(b.bin(arch), "envoy"), filepath.Join(b.bin(arch), "libc6")
	if b.Prebuilt != "" {
		return binary, libc, nil
	}
	if err := os.MkdirAll(libc, 0o755); err != nil {
		return "", "", fmt.Errorf("making room for Envoy: %w", err)
	}
	if err := b.run(ctx, b.Root, nil, filepath.Join(scripts, "envoy"), binary, arch); err != nil {
		return "", "", err
	}
	return binary, libc, b.debian(ctx, "libc6", arch, libc)
}

// Busybox fetches the pinned shell.
func (b Builder) Busybox(ctx context.Context, arch string) (string, error) {
	dir := filepath.Join(b.bin(arch), "busybox-static")
	binary := filepath.Join(dir, "bin/busybox")
	if b.Prebuilt != "" {
		return binary, nil
	}
	return binary, b.debian(ctx, "busybox-static", arch, dir)
}

func (b Builder) debian(ctx context.Context, name, arch, to string) error {
	return b.run(ctx, b.Root, nil, filepath.Join(b.Root, "e2e/tools/scripts/deb"), name, arch, to)
}

func (b Builder) run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = b.Log, b.Log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return nil
}

// Toolchain is the Go that compiles, such as go1.26.8.
func Toolchain(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking for the version of Go: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
