package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/journal"
)

// behaviour C5, hazards 46, 48: a journal that goes away, or that never was, is
// noticed, said once, and whole again as soon as it can be.
func TestAJournalThatGoesAwayIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, dir string) // the start
		harm   func(t *testing.T, dir string)
		given  bool // a new lease after the harm
		line   string
		mend   func(t *testing.T, dir string)
	}{
		{
			name:  "the file is deleted",
			harm:  func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "leases.journal"))) },
			given: true, line: "gone from its place",
		},
		{
			name: "another file is in its place",
			harm: func(t *testing.T, dir string) {
				other := filepath.Join(dir, "other")
				require.NoError(t, os.WriteFile(other, []byte("x"), 0o600))
				require.NoError(t, os.Rename(other, filepath.Join(dir, "leases.journal")))
			},
			given: true, line: "gone from its place",
		},
		{
			name: "the directory is moved away",
			harm: func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir, dir+".gone")) },
			line: `"level":"ERROR","msg":"lease journal cannot be rewritten`,
			mend: func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir+".gone", dir)) },
		},
		{
			name:   "the directory was never there",
			before: func(t *testing.T, dir string) { require.NoError(t, os.Remove(dir)) },
			line:   `"level":"ERROR","msg":"lease journal cannot be rewritten`,
			mend:   func(t *testing.T, dir string) { require.NoError(t, os.Mkdir(dir, 0o700)) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			require.NoError(t, os.Mkdir(dir, 0o700))
			if c.before != nil {
				c.before(t, dir)
			}
			j, _ := journal.Open(dir)
			d := newDeskOn(t, j)
			request := func(n byte, ip string) int {
				return d.take(packet{payload: message(t, station(n), dhcpv4.MessageTypeRequest, ask(ip)), from: station(n), port: serverPort})
			}
			if c.before == nil {
				require.Equal(t, 1, request(1, "192.0.2.110"))
			}
			if c.harm != nil {
				c.harm(t, dir)
			}
			for range 10 {
				d.now = d.now.Add(time.Second)
				d.Tick()
			}
			require.Equal(t, 1, strings.Count(d.out.String(), c.line), d.out.String())
			request(2, "192.0.2.111")
			require.Equal(t, c.given, d.problem("JournalUnwritable") == "")
			if !c.given {
				require.Contains(t, d.problem("JournalUnwritable"), "cannot be stored")
				c.mend(t, dir)
				d.now = d.now.Add(6 * time.Second)
				d.Tick()
				require.Equal(t, 1, strings.Count(d.out.String(), "writable again"), d.out.String())
				require.Empty(t, d.problem("JournalUnwritable"))
			}
			require.Equal(t, 1, request(2, "192.0.2.111"))
			found, err := journal.Read(dir)
			require.NoError(t, err)
			want := 1
			if c.before == nil {
				want++
			}
			ips := map[string]bool{}
			for _, r := range found.Records {
				ips[r.IP.String()] = true
			}
			require.Len(t, ips, want, "%v", found.Records)
			require.NoError(t, j.Close())
		})
	}
}

// behaviour C5: two servers with one directory put each other's journal out of its
// place each second; that is no line a second.
func TestAJournalThatGoesAwayAgainAndAgainIsFewLines(t *testing.T) {
	dir := t.TempDir()
	j, _ := journal.Open(dir)
	d := newDeskOn(t, j)
	for range 20 {
		require.NoError(t, os.Remove(filepath.Join(dir, "leases.journal")))
		d.now = d.now.Add(time.Second)
		d.Tick()
	}
	require.LessOrEqual(t, strings.Count(d.out.String(), "gone from its place"), 3, d.out.String())
	require.NoError(t, j.Close())
}
