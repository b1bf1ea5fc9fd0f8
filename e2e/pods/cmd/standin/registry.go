package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// serveRegistry serves the OCI layouts of a directory, each under its own
// name, as an image registry without TLS.
func serveRegistry(ctx context.Context, addr, dir string) error {
	blobs := dir + ".blobs"
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return fmt.Errorf("making the store: %w", err)
	}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", addr)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, handler) }()
	layouts, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return fmt.Errorf("listing the images: %w", err)
	}
	for _, path := range layouts {
		index, err := layout.ImageIndexFromPath(path)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		reference, err := name.NewTag(addr+"/"+filepath.Base(path)+":latest", name.Insecure)
		if err != nil {
			return fmt.Errorf("naming %s: %w", path, err)
		}
		if err := remote.WriteIndex(reference, index); err != nil {
			return fmt.Errorf("pushing %s: %w", path, err)
		}
		fmt.Println("serving", reference)
	}
	fmt.Println("complete")
	return <-failed
}
