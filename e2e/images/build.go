package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Capability is a mask of Linux capabilities (capability.h).
type Capability uint32

// CapNetRaw is what a DHCP server needs for raw frames.
const CapNetRaw Capability = 1 << 13

// Spec is what an image holds.
type Spec struct {
	// Arch is Go's name of the architecture; empty = amd64.
	Arch       string
	Entrypoint []string
	Cmd        []string
	Env        []string
	// User is "uid:gid", by number: an image from nothing has no names.
	User   string
	Labels map[string]string
	// Dirs are made beside those of the files.
	Dirs []Dir
	// Files become one layer.
	Files []File
	// Stored leaves the layer uncompressed: for images that never travel.
	Stored bool
}

// Dir is a directory of an image.
type Dir struct {
	Path string
	Mode fs.FileMode
}

// File is a file of an image.
type File struct {
	Path string
	Mode fs.FileMode
	// Source is where its content lies; Data is the content itself.
	Source string
	Data   []byte
	// Capability is the file's permitted and effective capabilities.
	Capability Capability
	// Link makes it a symbolic link to that path instead.
	Link string
}

// epoch is the time of everything in an image.
var epoch = time.Unix(0, 0).UTC()

// Build makes an image.
func Build(spec Spec) (v1.Image, error) {
	content, err := layerContent(spec)
	if err != nil {
		return nil, err
	}
	level := gzip.DefaultCompression
	if spec.Stored {
		level = gzip.NoCompression
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(level))
	if err != nil {
		return nil, fmt.Errorf("making the layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "oooi e2e/images"},
	}); err != nil {
		return nil, fmt.Errorf("adding the layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", cmp.Or(spec.Arch, "amd64")
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{
		Entrypoint: spec.Entrypoint, Cmd: spec.Cmd, User: spec.User, Labels: spec.Labels, WorkingDir: "/",
		Env: append([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/"}, spec.Env...),
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("setting the configuration: %w", err)
	}
	return image, nil
}

// layerContent is the layer's tar: directories before what they hold, sorted.
func layerContent(spec Spec) ([]byte, error) {
	dirs := map[string]fs.FileMode{"etc": 0o755, "tmp": fs.ModeSticky | 0o777}
	addParents := func(name string) {
		for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if _, found := dirs[dir]; !found {
				dirs[dir] = 0o755
			}
		}
	}
	for _, dir := range spec.Dirs {
		name := clean(dir.Path)
		addParents(name)
		dirs[name] = dir.Mode
	}
	files := slices.SortedFunc(slices.Values(spec.Files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, file := range files {
		addParents(clean(file.Path))
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	names := make([]string, 0, len(dirs))
	for name := range dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: tarMode(dirs[name]), ModTime: epoch}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("adding directory %s: %w", name, err)
		}
	}
	for _, file := range files {
		if err := addFile(w, file); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("ending the layer: %w", err)
	}
	return out.Bytes(), nil
}

func addFile(w *tar.Writer, file File) error {
	if file.Link != "" {
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: clean(file.Path), Linkname: file.Link, Mode: 0o777, ModTime: epoch}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("adding %s: %w", file.Path, err)
		}
		return nil
	}
	data := file.Data
	if file.Source != "" {
		read, err := os.ReadFile(file.Source)
		if err != nil {
			return fmt.Errorf("reading what becomes %s: %w", file.Path, err)
		}
		data = read
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: clean(file.Path), Mode: tarMode(file.Mode), Size: int64(len(data)), ModTime: epoch,
	}
	if file.Capability != 0 {
		header.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": capabilityXattr(file.Capability)}
	}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("adding %s: %w", file.Path, err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("adding %s: %w", file.Path, err)
	}
	return nil
}

// capabilityXattr is the kernel's vfs_cap_data of revision 2 (capability.h):
// permitted, with the effective bit, nothing inheritable.
func capabilityXattr(mask Capability) string {
	const revision2Effective = 0x02000001
	raw := make([]byte, 20)
	binary.LittleEndian.PutUint32(raw, revision2Effective)
	binary.LittleEndian.PutUint32(raw[4:], uint32(mask))
	return string(raw)
}

func tarMode(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

func clean(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }
