package packaging

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Mirror makes an installation that names one registry and no other: it pushes
// the components' images there unchanged, writes manifests, bundle and catalog
// that name them there into a directory, and pushes the images of that bundle
// and that catalog.
//
// A cluster that redirects by digest (an ImageDigestMirrorSet) needs none of
// this but the push of all images.
func (b Builder) Mirror(ctx context.Context, table Table, opm, to, out string, archs []string) error {
	there := table.In(to)
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("removing the old installation: %w", err)
	}
	tags := there.Tags()
	delete(tags, imageName(there.BundleImage()))
	delete(tags, imageName(there.CatalogImage()))
	digests, err := Push(ctx, b.Out, to, tags)
	if err != nil {
		return err
	}
	for _, c := range there.Components {
		if digests[imageName(c.Image)] != c.Digest {
			return fmt.Errorf("%s is built as %s, and the table says %s: build what the table was pinned for", c.Name, digests[imageName(c.Image)], c.Digest)
		}
	}
	if err := mirrorManifests(b.Root, out, table, there); err != nil {
		return err
	}
	bundle, catalog := filepath.Join(out, "bundle"), filepath.Join(out, CatalogPath)
	if err := WriteBundle(b.Root, bundle, there); err != nil {
		return err
	}
	image, err := BundleImage(there, bundle)
	if err != nil {
		return err
	}
	if err := push(ctx, there.BundleImage(), "v"+there.Version, image); err != nil {
		return err
	}
	if err := WriteCatalog(ctx, opm, b.Root, bundle, catalog, there); err != nil {
		return err
	}
	built, err := b.Catalog(ctx, there, catalog, archs)
	if err != nil {
		return err
	}
	return push(ctx, there.CatalogImage(), "v"+there.Version, built.Index)
}

// mirrorManifests copies manifests/ with the images' new places.
func mirrorManifests(root, out string, table, there Table) error {
	to := filepath.Join(out, "manifests")
	if err := os.CopyFS(to, os.DirFS(filepath.Join(root, "manifests"))); err != nil {
		return fmt.Errorf("copying the manifests: %w", err)
	}
	if err := os.Remove(filepath.Join(to, "images/kustomization.yaml")); err != nil {
		return fmt.Errorf("replacing the images: %w", err)
	}
	if err := WriteImagesComponent(out, there); err != nil {
		return err
	}
	samples, err := filepath.Glob(filepath.Join(to, "olm/*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the samples: %w", err)
	}
	for _, sample := range samples {
		raw, err := os.ReadFile(sample)
		if err != nil {
			return fmt.Errorf("reading a sample: %w", err)
		}
		raw = bytes.ReplaceAll(raw, []byte(table.CatalogImage()), []byte(there.CatalogImage()))
		if err := os.WriteFile(sample, raw, 0o644); err != nil {
			return fmt.Errorf("writing a sample: %w", err)
		}
	}
	return nil
}
