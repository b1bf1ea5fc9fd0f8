package packaging

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// CatalogPath is where the catalog lies in the repository.
const CatalogPath = "catalog"

// ChannelEntry is one version in a channel.
type ChannelEntry struct {
	Name      string `json:"name"`
	Replaces  string `json:"replaces,omitempty"`
	SkipRange string `json:"skipRange,omitempty"`
}

// Channel is a file of the catalog.
type Channel struct {
	Schema  string         `json:"schema"`
	Package string         `json:"package"`
	Name    string         `json:"name"`
	Entries []ChannelEntry `json:"entries"`
}

// ReadChannel reads a channel's file.
func ReadChannel(file string) (Channel, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Channel{}, fmt.Errorf("reading a channel: %w", err)
	}
	var channel Channel
	if err := yaml.UnmarshalStrict(raw, &channel); err != nil {
		return Channel{}, fmt.Errorf("%s: %w", file, err)
	}
	return channel, nil
}

// With is the channel with a version as its head: what is there stays as it
// was released, and the new head replaces the old one.
func (c Channel) With(name, skipRange string) Channel {
	entry := ChannelEntry{Name: name, SkipRange: skipRange}
	c.Entries = slices.Clone(c.Entries)
	if i := slices.IndexFunc(c.Entries, func(e ChannelEntry) bool { return e.Name == name }); i >= 0 {
		entry.Replaces = c.Entries[i].Replaces
		c.Entries[i] = entry
		return c
	}
	if heads := c.Heads(); len(heads) > 0 {
		entry.Replaces = heads[0]
	}
	c.Entries = append(c.Entries, entry)
	return c
}

// Heads are the entries that no other replaces; a channel has one.
func (c Channel) Heads() []string {
	var heads []string
	for _, e := range c.Entries {
		if !slices.ContainsFunc(c.Entries, func(other ChannelEntry) bool { return other.Replaces == e.Name }) {
			heads = append(heads, e.Name)
		}
	}
	return heads
}

// WriteCatalog renders the bundle of a directory by opm and writes the catalog
// into another: the package, one file for the channel, one for the version.
func WriteCatalog(ctx context.Context, opm, root, bundle, to string, table Table) error {
	rendered, err := render(ctx, opm, bundle, table)
	if err != nil {
		return err
	}
	dir := filepath.Join(to, PackageName)
	channelFile := filepath.Join(dir, "channel-"+table.DefaultChannel+".yaml")
	channel, err := ReadChannel(channelFile)
	if errors.Is(err, os.ErrNotExist) {
		channel, err = Channel{Schema: "olm.channel", Package: PackageName, Name: table.DefaultChannel}, nil
	}
	if err != nil {
		return err
	}
	pkg, err := packageBlob(root, table)
	if err != nil {
		return err
	}
	files, err := marshalAll(map[string]any{
		"package.yaml": pkg, filepath.Base(channelFile): channel.With(CSVName(table.Version), table.skipRange()),
	})
	if err != nil {
		return err
	}
	files[CSVName(table.Version)+".yaml"] = rendered
	for name, raw := range files {
		if err := writeFile(raw, dir, name); err != nil {
			return err
		}
	}
	return opmRun(ctx, opm, "", "validate", to)
}

func packageBlob(root string, table Table) (map[string]any, error) {
	icon, err := os.ReadFile(filepath.Join(root, "manifests/olm/base/icon.svg"))
	if err != nil {
		return nil, fmt.Errorf("reading the icon: %w", err)
	}
	description, err := os.ReadFile(filepath.Join(root, "manifests/olm/base/description.md"))
	if err != nil {
		return nil, fmt.Errorf("reading the description: %w", err)
	}
	return map[string]any{
		"schema": "olm.package", "name": PackageName, "defaultChannel": table.DefaultChannel,
		"description": string(description),
		"icon":        map[string]any{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml"},
	}, nil
}

// render has opm read the bundle's image, as a catalog's pipeline does, from a
// registry on loopback; what it says is then true of the image's real place.
func render(ctx context.Context, opm, bundle string, table Table) ([]byte, error) {
	image, err := BundleImage(table, bundle)
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, fmt.Errorf("reading the bundle's digest: %w", err)
	}
	registry, err := StartRegistry(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer registry.Close()
	here := registry.Addr + "/" + imageName(table.BundleImage())
	if err := push(ctx, here, "v"+table.Version, image); err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "oooi-opm-")
	if err != nil {
		return nil, fmt.Errorf("making a home for opm: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	if err := trustAll(home); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, opm, "render", here+"@"+digest.String(), "--use-http",
		"--migrate-level", "bundle-object-to-csv-metadata", "--output", "yaml")
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = withHome(home), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("opm render: %w: %s", err, tail(stderr.String()))
	}
	return bytes.ReplaceAll(stdout.Bytes(), []byte(here), []byte(table.BundleImage())), nil
}

func opmRun(ctx context.Context, opm, home string, args ...string) error {
	cmd := exec.CommandContext(ctx, opm, args...)
	if home != "" {
		cmd.Env = withHome(home)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("opm %s: %w: %s", strings.Join(args, " "), err, tail(string(out)))
	}
	return nil
}

// tail is the end of a program's words.
func tail(words string) string {
	const most = 2000
	if words = strings.TrimSpace(words); len(words) > most {
		return words[len(words)-most:]
	}
	return words
}
