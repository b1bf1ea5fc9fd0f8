package images

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Index makes one image index of images for several architectures, in the
// order given.
func Index(all ...v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range all {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture},
		}})
	}
	return index, nil
}

// WriteArchive writes an image as the tarball that "ctr images import",
// "podman load" and "docker load" take.
func WriteArchive(file, reference string, image v1.Image) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("reading the image's name: %w", err)
	}
	if err := tarball.WriteToFile(file, tag, image); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// WriteLayout writes an index as an OCI layout.
func WriteLayout(dir string, index v1.ImageIndex) error {
	if _, err := layout.Write(dir, index); err != nil {
		return fmt.Errorf("writing %s: %w", dir, err)
	}
	return nil
}
