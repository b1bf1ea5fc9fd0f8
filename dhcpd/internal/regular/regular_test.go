package regular

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// hazard 5: a file is read whole or not at all.
func TestAFileIsReadWholeOrNotAtAll(t *testing.T) {
	const limit = 8
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{"empty": "", "full": "12345678", "large": "123456789"} {
		require.NoError(t, os.WriteFile(path(name), []byte(content), 0o600))
	}
	require.NoError(t, syscall.Mkfifo(path("pipe"), 0o600))
	for _, c := range []struct{ name, path, want, err string }{
		{"an empty file", path("empty"), "", ""},
		{"a file as large as the limit", path("full"), "12345678", ""},
		{"a larger file", path("large"), "", "larger than 8 bytes"},
		{"a file with more in it than its size says, as one that grows", "/proc/self/status", "", "larger than 8 bytes"},
		{"a pipe", path("pipe"), "", "no regular file"},
		{"a directory", dir, "", "no regular file"},
		{"no file", path("none"), "", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Read(c.path, limit)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Nil(t, b)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, string(b))
		})
	}
}
