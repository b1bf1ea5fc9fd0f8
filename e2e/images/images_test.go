package images

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/stretchr/testify/require"
)

func build(t *testing.T, arch string) v1.Image {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "dhcpd"), []byte("program of "+arch), 0o700))
	spec, err := Component("dhcpd", arch, bin)
	require.NoError(t, err)
	image, err := Build(spec)
	require.NoError(t, err)
	return image
}

func TestEqualContentGivesAnEqualDigest(t *testing.T) {
	first, err := build(t, "amd64").Digest()
	require.NoError(t, err)
	second, err := build(t, "amd64").Digest()
	require.NoError(t, err)
	require.Equal(t, first, second)
	other, err := build(t, "arm64").Digest()
	require.NoError(t, err)
	require.NotEqual(t, first, other)
}

// TestDHCPDMayUseRawSockets: behaviour C8. The header is the kernel's
// vfs_cap_data.
func TestDHCPDMayUseRawSockets(t *testing.T) {
	layers, err := build(t, "amd64").Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	var names []string
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names = append(names, header.Name)
		if header.Name != "dhcpd" {
			continue
		}
		require.Equal(t, "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
			header.PAXRecords["SCHILY.xattr.security.capability"])
		require.Equal(t, int64(0o755), header.Mode)
	}
	require.Equal(t, []string{"etc/", "tmp/", "dhcpd"}, names)
}

func TestAnIndexHoldsEveryArchitecture(t *testing.T) {
	index, err := Index(build(t, "amd64"), build(t, "arm64"))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, WriteLayout(dir, index))
	read, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	manifest, err := read.IndexManifest()
	require.NoError(t, err)
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	require.Equal(t, []string{"linux/amd64", "linux/arm64"}, platforms)
}

func TestOnlyTheFenceRunsAsRoot(t *testing.T) {
	for _, name := range []string{"operator", "dhcpd", "coredns", "xds-manager", "fence"} {
		spec, err := Component(name, "amd64", "bin")
		require.NoError(t, err)
		require.Equal(t, name == "fence", spec.User == "0:0", name)
	}
	_, err := Component("teapot", "amd64", "bin")
	require.Error(t, err)
}
