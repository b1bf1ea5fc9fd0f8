package vmi

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// behaviours C3, C10; hazard 5: a file that cannot be read harms no other, keeps
// what it said last, is named, and is never waited for.
func TestAFileThatCannotBeReadHarmsNoOther(t *testing.T) {
	cfg := fixture()
	cfg.Namespaces = []string{"ns"}
	one := vmi("ns", "multus: {networkName: default/vlan100}", "")
	two := strings.NewReplacer("name: vm,", "name: vm2,", "00:01", "00:02").Replace(one)
	for _, c := range []struct {
		name string
		harm func(path string) error
		want string
	}{
		{"no YAML", func(p string) error { return os.WriteFile(p, []byte(": not yaml"), 0o600) }, "parsing"},
		{"half of it", func(p string) error { return os.WriteFile(p, []byte(one[:len(one)/2]+"{"), 0o600) }, "parsing"},
		{"a machine that is none", func(p string) error {
			return os.WriteFile(p, []byte("kind: VirtualMachineInstance\nspec: 3\n"), 0o600)
		}, "parsing"},
		{"a pipe", func(p string) error { return syscall.Mkfifo(p, 0o600) }, "no regular file"},
		{"a directory", func(p string) error { return os.Mkdir(p, 0o700) }, "no regular file"},
		{"a link to nowhere", func(p string) error { return os.Symlink("nowhere", p) }, "no such file"},
		{"an endless file", func(p string) error {
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(p, 1<<40)
		}, "larger than"},
	} {
		for _, before := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: ", good before"}[before], func(t *testing.T) {
				dir := t.TempDir()
				bad := filepath.Join(dir, "a.yaml")
				require.NoError(t, os.WriteFile(filepath.Join(dir, "b.yaml"), []byte(two), 0o600))
				var out bytes.Buffer
				r := newReader(Files{Dir: dir, Log: slog.New(slog.NewTextHandler(&out, nil))})
				if before {
					require.NoError(t, os.WriteFile(bad, []byte(one), 0o600))
					x, err := r.index(cfg)
					require.NoError(t, err)
					require.Equal(t, 2, x.Len())
					require.NoError(t, os.Remove(bad))
				}
				require.NoError(t, c.harm(bad))
				mark, err := r.mark()
				require.NoError(t, err)
				for range 3 {
					x, err := r.index(cfg)
					require.NoError(t, err)
					require.Len(t, x.VMs(mac(2)), 1, "the other file's machine")
					require.Len(t, x.Unreadable(), 1)
					require.Contains(t, x.Unreadable()[0], bad)
					require.Contains(t, x.Unreadable()[0], c.want)
					gone := x.Exists(lease.VM{Namespace: "ns", Name: "other"})
					if before {
						require.Len(t, x.VMs(mac(1)), 1, "as it was")
						require.Equal(t, lease.Gone, gone)
					} else {
						require.Empty(t, x.VMs(mac(1)))
						require.Equal(t, lease.Unknown, gone, "it may be in the file")
						require.False(t, x.Complete(cfg))
					}
				}
				require.Equal(t, 1, strings.Count(out.String(), "level=ERROR"), out.String())

				require.NoError(t, os.RemoveAll(bad))
				require.NoError(t, os.WriteFile(bad, []byte(one), 0o600))
				again, err := r.mark()
				require.NoError(t, err)
				require.NotEqual(t, mark, again)
				x, err := r.index(cfg)
				require.NoError(t, err)
				require.Empty(t, x.Unreadable())
				require.Equal(t, 2, x.Len())
			})
		}
	}
}

// behaviour C3: a file that heals is read again, though nothing about it has
// changed; as long as it does not, it is logged once.
func TestAFileThatHealsIsReadAgain(t *testing.T) {
	cfg := fixture()
	cfg.Namespaces = []string{"ns"}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte(vmi("ns", "multus: {networkName: default/vlan100}", "")), 0o600))
	var out bytes.Buffer
	r := newReader(Files{Dir: dir, Log: slog.New(slog.NewTextHandler(&out, nil))})
	read := r.read
	var fault atomic.Uintptr
	r.read = func(path string, limit int64) ([]byte, error) {
		if e := syscall.Errno(fault.Load()); e != 0 {
			return nil, e
		}
		return read(path, limit)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ticks, configs, done := make(chan time.Time), make(chan *config.Config), make(chan error)
	var got []*Index
	go func() { done <- r.run(ctx, ticks, configs, func(x *Index) { got = append(got, x) }) }()
	fault.Store(uintptr(syscall.EIO))
	configs <- cfg
	for _, e := range []syscall.Errno{syscall.EIO, syscall.EACCES, 0} {
		fault.Store(uintptr(e))
		for range 3 { // with the third taken, the second is done with
			ticks <- time.Time{}
		}
	}
	cancel()
	require.NoError(t, <-done)
	require.Len(t, got, 3, "told only when something has changed")
	require.Contains(t, got[0].Unreadable()[0], syscall.EIO.Error())
	require.Contains(t, got[1].Unreadable()[0], syscall.EACCES.Error())
	require.Empty(t, got[2].Unreadable())
	require.Len(t, got[2].VMs(mac(1)), 1)
	require.Equal(t, 2, strings.Count(out.String(), "level=ERROR"), out.String())
}

// behaviour C3, hazard 5: a directory that goes away takes no machine with it, is
// named, and is read again when it is back.
func TestADirectoryThatGoesAwayKeepsWhatWasKnown(t *testing.T) {
	cfg := fixture()
	cfg.Namespaces = []string{"ns"}
	dir := filepath.Join(t.TempDir(), "machines")
	require.ErrorContains(t, Files{Dir: dir}.Check(), dir)
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, Files{Dir: dir}.Check())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(vmi("ns", "multus: {networkName: default/vlan100}", "")), 0o600))
	var out bytes.Buffer
	r := newReader(Files{Dir: dir, Log: slog.New(slog.NewTextHandler(&out, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ticks, configs, done := make(chan time.Time), make(chan *config.Config), make(chan error)
	var got []*Index
	go func() { done <- r.run(ctx, ticks, configs, func(x *Index) { got = append(got, x) }) }()
	turn := func() {
		for range 3 { // with the third taken, the second is done with
			ticks <- time.Time{}
		}
	}
	configs <- cfg
	turn()
	require.NoError(t, os.Rename(dir, dir+".away"))
	turn()
	require.NoError(t, os.Rename(dir+".away", dir))
	turn()
	cancel()
	require.NoError(t, <-done)
	require.Len(t, got, 3, "told only when something has changed")
	for i, x := range got {
		require.Len(t, x.VMs(mac(1)), 1, "reading %d", i)
		require.Equal(t, lease.Gone, x.Exists(lease.VM{Namespace: "ns", Name: "other"}), "reading %d", i)
	}
	require.Empty(t, got[0].Unreadable())
	require.Len(t, got[1].Unreadable(), 1)
	require.Contains(t, got[1].Unreadable()[0], dir)
	require.Empty(t, got[2].Unreadable())
	require.Equal(t, 1, strings.Count(out.String(), "level=ERROR"), out.String())
}
