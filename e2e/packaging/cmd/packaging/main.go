// Command packaging makes the bundle, the catalog and the images.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/densityops/oooi/e2e/packaging"
)

func main() { os.Exit(run(os.Args[1:])) }

var commands = map[string]func(context.Context, []string) error{
	"bundle":  bundle,
	"stale":   stale,
	"catalog": catalog,
	"images":  images,
	"pin":     pin,
	"push":    push,
	"mirror":  mirror,
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "usage: packaging bundle|stale|catalog|images|pin|push|mirror [flags]")
		return 2
	}
	if err := commands[args[0]](ctx, args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "packaging %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// table parses the flags that every command has and reads the table.
func table(flags *flag.FlagSet, args []string) (root string, t packaging.Table, err error) {
	flags.StringVar(&root, "root", ".", "the repository")
	registry := flags.String("registry", "", "put every image into this registry")
	if err := flags.Parse(args); err != nil {
		return "", packaging.Table{}, fmt.Errorf("reading flags: %w", err)
	}
	if t, err = packaging.ReadTable(root); err == nil && *registry != "" {
		t = t.In(*registry)
	}
	return root, t, err
}

func bundle(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("bundle", flag.ContinueOnError)
	root, t, err := table(flags, args)
	if err != nil {
		return err
	}
	if err := packaging.WriteImagesComponent(root, t); err != nil {
		return err
	}
	return packaging.WriteBundle(root, root+"/bundle", t)
}

func stale(_ context.Context, args []string) error {
	root, t, err := table(flag.NewFlagSet("stale", flag.ContinueOnError), args)
	if err != nil {
		return err
	}
	files, err := packaging.Stale(root, t)
	if err != nil || len(files) == 0 {
		return err
	}
	slices.Sort(files)
	return errors.New("not current, run make bundle: " + strings.Join(files, ", "))
}

func catalog(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("catalog", flag.ContinueOnError)
	opm := flags.String("opm", "bin/tools/opm", "opm")
	root, t, err := table(flags, args)
	if err != nil {
		return err
	}
	return packaging.WriteCatalog(ctx, *opm, root, root+"/bundle", root+"/"+packaging.CatalogPath, t)
}

func push(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("push", flag.ContinueOnError)
	from := flags.String("from", "bin/images", "what \"make images\" built")
	to := flags.String("to", "", "the registry and path to push to")
	_, t, err := table(flags, args)
	if err != nil {
		return err
	}
	if *to == "" {
		return errors.New("no registry is given: -to registry.example.com/oooi")
	}
	digests, err := packaging.Push(ctx, *from, *to, t.Tags())
	for image, digest := range digests {
		fmt.Fprintf(os.Stdout, "%s/%s@%s\n", *to, image, digest)
	}
	return err
}
