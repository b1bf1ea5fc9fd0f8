package packaging

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Registry is an image registry on loopback, in memory.
type Registry struct {
	// Addr is its host and port.
	Addr   string
	server *http.Server
}

// StartRegistry starts an empty registry. Each request's method and path go to
// seen, if there is one.
func StartRegistry(ctx context.Context, seen func(method, path string)) (*Registry, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a registry: %w", err)
	}
	quiet := log.New(discard{}, "", 0)
	handler := registry.New(registry.Logger(quiet))
	server := &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen(r.Method, r.URL.Path)
		}
		handler.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	return &Registry{Addr: listener.Addr().String(), server: server}, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Close stops it.
func (r *Registry) Close() { _ = r.server.Close() }

// push puts an image or an index into a registry, by its digest and by tag. It logs
// in as the configuration of docker or podman says.
func push(ctx context.Context, repository, tag string, what remote.Taggable) error {
	reference, err := name.NewTag(repository + ":" + tag)
	if err != nil {
		return fmt.Errorf("reading an image's name: %w", err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	switch image := what.(type) {
	case v1.Image:
		err = remote.Write(reference, image, options...)
	case v1.ImageIndex:
		err = remote.WriteIndex(reference, image, options...)
	default:
		err = fmt.Errorf("%T is no image", what)
	}
	if err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	return nil
}

// Push puts images of an output directory of "make images" into a registry,
// unchanged, so that each keeps its digest. tags are by image name; what has
// none stays behind.
func Push(ctx context.Context, out, to string, tags map[string]string) (map[string]string, error) {
	digests := map[string]string{}
	for image, tag := range tags {
		index, err := layout.ImageIndexFromPath(filepath.Join(out, "oci", image))
		if err != nil {
			return nil, fmt.Errorf("%s is not built (make images): %w", image, err)
		}
		what, digest, err := only(index)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", image, err)
		}
		if err := push(ctx, to+"/"+image, tag, what); err != nil {
			return nil, err
		}
		digests[image] = digest.String()
	}
	return digests, nil
}

// only is what an index stands for: itself, or the image of the bundle, which
// has no architecture.
func only(index v1.ImageIndex) (remote.Taggable, v1.Hash, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, v1.Hash{}, err
	}
	if len(manifest.Manifests) == 1 && manifest.Manifests[0].Platform == nil {
		digest := manifest.Manifests[0].Digest
		image, err := index.Image(digest)
		return image, digest, err
	}
	digest, err := index.Digest()
	return index, digest, err
}

// Tags are the tags of all images, by image name.
func (t Table) Tags() map[string]string {
	tags := map[string]string{
		imageName(t.BundleImage()): "v" + t.Version, imageName(t.CatalogImage()): "v" + t.Version,
	}
	for _, c := range t.Components {
		tags[imageName(c.Image)] = c.Version
	}
	return tags
}

// trustAll is a home directory whose policy lets opm pull from a registry on
// loopback without signatures.
func trustAll(dir string) error {
	return writeFile([]byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), dir, ".config/containers/policy.json")
}

// withHome is an environment with that home.
func withHome(dir string) []string {
	env := []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "XDG_CONFIG_HOME=" + filepath.Join(dir, ".config")}
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "HOME=") && !strings.HasPrefix(pair, "XDG_") {
			env = append(env, pair)
		}
	}
	return env
}
