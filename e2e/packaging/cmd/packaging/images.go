package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/densityops/oooi/e2e/packaging"
)

// imageFlags are the flags of the commands that build.
type imageFlags struct {
	builder packaging.Builder
	archs   []string
	opm     string
}

func (i *imageFlags) register(flags *flag.FlagSet) func(root string) error {
	out := flags.String("out", "bin/images", "where the images end up")
	archs := flags.String("archs", strings.Join(packaging.Architectures, ","), "architectures, with commas")
	flags.StringVar(&i.opm, "opm", "bin/tools/opm", "opm")
	return func(root string) error {
		var err error
		if i.builder.Root, err = filepath.Abs(root); err != nil {
			return fmt.Errorf("finding the repository: %w", err)
		}
		if i.builder.Out, err = filepath.Abs(*out); err != nil {
			return fmt.Errorf("finding the output directory: %w", err)
		}
		i.builder.Log = os.Stderr
		i.archs = strings.Split(*archs, ",")
		return nil
	}
}

// images builds every image of the repository as it is, and says where the
// table names another digest.
func images(ctx context.Context, args []string) error {
	var with imageFlags
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	ready := with.register(flags)
	check := flags.Bool("check", false, "fail if the table names another digest")
	root, t, err := table(flags, args)
	if err != nil {
		return err
	}
	if err := ready(root); err != nil {
		return err
	}
	digests, err := with.components(ctx, t)
	if err != nil {
		return err
	}
	if err := with.bundleAndCatalog(ctx, root, t); err != nil {
		return err
	}
	var differ []string
	for _, c := range t.Components {
		if digests[c.Name] != c.Digest {
			differ = append(differ, c.Name)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	words := fmt.Sprintf("%s: the table has another digest for %s (make pin)", packaging.TablePath, strings.Join(differ, ", "))
	if *check {
		return errors.New(words)
	}
	fmt.Fprintln(os.Stdout, words)
	return nil
}

func (i *imageFlags) components(ctx context.Context, t packaging.Table) (map[string]string, error) {
	digests := map[string]string{}
	for _, c := range t.Components {
		built, err := i.builder.Component(ctx, t, c.Name, i.archs)
		if err != nil {
			return nil, err
		}
		if err := i.builder.Write(built, c.Tag()); err != nil {
			return nil, err
		}
		digests[c.Name] = built.Digest
		fmt.Fprintf(os.Stdout, "%s@%s\n", c.Image, built.Digest)
	}
	return digests, nil
}

func (i *imageFlags) bundleAndCatalog(ctx context.Context, root string, t packaging.Table) error {
	image, err := packaging.BundleImage(t, filepath.Join(root, "bundle"))
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return fmt.Errorf("reading the bundle's digest: %w", err)
	}
	if err := i.builder.WriteBundleImage(image, t); err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "%s@%s\n", t.BundleImage(), digest)
	built, err := i.builder.Catalog(ctx, t, filepath.Join(root, packaging.CatalogPath), i.archs)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "%s@%s\n", t.CatalogImage(), built.Digest)
	return i.builder.Write(built, t.CatalogImage()+":v"+t.Version)
}

// pin builds the components' images and writes their digests into the table.
func pin(ctx context.Context, args []string) error {
	var with imageFlags
	flags := flag.NewFlagSet("pin", flag.ContinueOnError)
	ready := with.register(flags)
	root, t, err := table(flags, args)
	if err != nil {
		return err
	}
	if err := ready(root); err != nil {
		return err
	}
	if !slices.Equal(with.archs, packaging.Architectures) {
		return fmt.Errorf("a digest is of an image for %s", strings.Join(packaging.Architectures, " and "))
	}
	digests, err := with.components(ctx, t)
	if err != nil {
		return err
	}
	toolchain, err := packaging.Toolchain(ctx)
	if err != nil {
		return err
	}
	return packaging.WriteTable(root, t.Pin(digests, toolchain))
}

// mirror makes an installation that names one registry alone.
func mirror(ctx context.Context, args []string) error {
	var with imageFlags
	flags := flag.NewFlagSet("mirror", flag.ContinueOnError)
	ready := with.register(flags)
	to := flags.String("to", "", "the registry and path to push to")
	into := flags.String("into", "bin/mirror", "where manifests, bundle and catalog go")
	root, t, err := table(flags, args)
	if err != nil {
		return err
	}
	if err := ready(root); err != nil {
		return err
	}
	if *to == "" {
		return errors.New("no registry is given: -to registry.example.com/oooi")
	}
	return with.builder.Mirror(ctx, t, with.opm, *to, *into, with.archs)
}
