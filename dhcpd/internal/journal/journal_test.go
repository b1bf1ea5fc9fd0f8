package journal

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/crash"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func record(n int) lease.Record {
	return lease.Record{
		IP:    netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}),
		State: lease.Bound,
		MAC:   lease.MAC{2, 0, 0, 0, byte(n >> 8), byte(n)},
		VM:    lease.VM{Namespace: "clusters", Name: fmt.Sprintf("vm-%d", n), Interface: "net"},
		Until: start.Add(time.Duration(n) * time.Second),
	}
}

func TestRecordsComeBackAsTheyWent(t *testing.T) {
	dir := t.TempDir()
	j, found := Open(dir)
	require.Equal(t, Found{Fresh: true}, found)
	require.ErrorIs(t, j.Commit([]lease.Record{record(0)}), ErrBroken, "not before the first rewrite")
	want := []lease.Record{record(1), {IP: record(2).IP, State: lease.Quarantined, Until: start}, {IP: record(3).IP, State: lease.Free}}
	require.NoError(t, j.Compact(want[:1]))
	require.NoError(t, j.Commit(want[1:2]))
	require.NoError(t, j.Commit(nil))
	require.NoError(t, j.Commit(want[2:]))
	require.NoError(t, j.Close())
	_, found = Open(dir)
	require.Equal(t, Found{Records: want}, found)
	read, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, want, read.Records)
}

// hazard 78: what is on disk is wall-clock time, whatever the clock in use.
func TestTimesAreOfTheWallClockAndRoundedUp(t *testing.T) {
	dir := t.TempDir()
	j, _ := Open(dir)
	j.SetWall(time.Hour)
	r := record(1)
	r.Until = start.Add(time.Millisecond)
	require.NoError(t, j.Compact([]lease.Record{r}))
	_, found := Open(dir)
	require.Equal(t, start.Add(time.Hour+time.Second), found.Records[0].Until)
}

func TestTheFileGrowsAndShrinks(t *testing.T) {
	dir := t.TempDir()
	j, _ := Open(dir)
	require.NoError(t, j.Compact(nil))
	n := 0
	for ; !j.Large(); n++ {
		require.Less(t, n, 100)
		batch := make([]lease.Record, 1000)
		for i := range batch {
			batch[i] = record(i)
		}
		require.NoError(t, j.Commit(batch))
	}
	_, found := Open(dir)
	require.Len(t, found.Records, 1000*n)
	require.False(t, found.Damaged)
	require.NoError(t, j.Compact([]lease.Record{record(1)}))
	require.False(t, j.Large())
	_, found = Open(dir)
	require.Len(t, found.Records, 1)
}

// case C16, hazards 40, 47: whatever is wrong with the file, what can be read
// is read, and the file is kept.
func TestADamagedFileIsKeptAside(t *testing.T) {
	write := func(t *testing.T, edit func([]byte) []byte) string {
		dir := t.TempDir()
		j, _ := Open(dir)
		require.NoError(t, j.Compact([]lease.Record{record(1), record(2), record(3), record(4)}))
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), edit(b), 0o600))
		return dir
	}
	frame := len(appendFrame(nil, record(1), 0))
	for _, c := range []struct {
		name string
		edit func([]byte) []byte
		want []int
	}{
		{"cut at 60 % of its bytes", func(b []byte) []byte { return b[:len(b)*6/10] }, []int{1, 2, 3, 4}},
		{"cut at 60 % of its records", func(b []byte) []byte { return b[:len(header)+4*frame*6/10] }, []int{1, 2}},
		{"cut between two records", func(b []byte) []byte { return b[:len(header)+2*frame] }, []int{1, 2}},
		{"of no length", func([]byte) []byte { return nil }, nil},
		{"another file altogether", func([]byte) []byte { return []byte("hello, world; this is no journal at all") }, nil},
		{"a flipped bit in a record", func(b []byte) []byte { b[len(header)+frame+9] ^= 1; return b }, []int{1, 3, 4}},
		{"a flipped bit in a length", func(b []byte) []byte { b[len(header)+frame+1] ^= 0x40; return b }, []int{1, 3, 4}},
		{"a record of zeros", func(b []byte) []byte { clear(b[len(header)+frame : len(header)+2*frame]); return b }, []int{1, 3, 4}},
		{"a flipped bit in the header", func(b []byte) []byte { b[3] ^= 1; return b }, []int{1, 2, 3, 4}},
		{"junk behind the records", func(b []byte) []byte { copy(b[len(header)+4*frame:], "junk"); return b }, []int{1, 2, 3, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := write(t, c.edit)
			j, found := Open(dir)
			require.True(t, found.Damaged)
			require.Equal(t, "leases.journal.damaged-1", found.KeptAs)
			var got []int
			for _, r := range found.Records {
				got = append(got, int(r.MAC[5]))
			}
			require.Equal(t, c.want, got)
			_, again := Open(dir)
			require.Equal(t, found, again, "it stays where it is until it is replaced")
			require.NoError(t, j.Compact(found.Records))
			require.FileExists(t, filepath.Join(dir, found.KeptAs))
			_, found = Open(dir)
			require.False(t, found.Damaged)
		})
	}
}

func TestOnlyAFewDamagedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	for range 10 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("junk"), 0o600))
		j, _ := Open(dir)
		require.NoError(t, j.Compact(nil))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, maxKept+1)
}

// behaviour C5: the process dies at every point where it writes, thousands of
// times; every record that was acknowledged is there afterwards, and the last
// one of an address counts.
func TestACrashAtAnyWriteLosesNothingAcknowledged(t *testing.T) {
	points := 0
	for seed := range uint64(30) {
		for budget := 0; ; budget++ {
			m := crash.New(seed, uint64(budget))
			acked := map[netip.Addr]lease.Record{}
			maybe := map[netip.Addr][]lease.Record{}
			j, _ := OpenOn(m)
			require.NoError(t, j.Compact(nil))
			m.Budget = budget
			finished := load(t, j, m.Rand, acked, maybe)
			m.Crash()
			_, found := OpenOn(m)
			got := map[netip.Addr]lease.Record{}
			for _, r := range found.Records {
				got[r.IP] = r
			}
			for addr, want := range acked {
				if got[addr] != want {
					require.Contains(t, maybe[addr], got[addr], "seed %d, crash after %d writes: %s is lost", seed, budget, addr)
				}
			}
			points++
			if finished {
				break
			}
		}
	}
	require.Greater(t, points, 2000)
	t.Logf("%d crash points", points)
}

// load commits and rewrites until the disk fails. It says whether it did not.
func load(t *testing.T, j *Journal, r *rand.Rand, acked map[netip.Addr]lease.Record, maybe map[netip.Addr][]lease.Record) bool {
	t.Helper()
	for i := range 30 {
		var err error
		if i%7 == 6 {
			all := make([]lease.Record, 0, len(acked))
			for _, x := range acked {
				all = append(all, x)
			}
			err = j.Compact(all)
		} else {
			batch := make([]lease.Record, 1+r.IntN(5))
			for k := range batch {
				batch[k] = record(r.IntN(20))
				batch[k].Until = start.Add(time.Duration(i*100+k) * time.Second)
				maybe[batch[k].IP] = append(maybe[batch[k].IP], batch[k])
			}
			if err = j.Commit(batch); err == nil {
				for _, x := range batch {
					acked[x.IP] = x
					delete(maybe, x.IP)
				}
			}
		}
		if err != nil {
			require.ErrorIs(t, err, crash.ErrCrash)
			return false
		}
	}
	return true
}

// hazard 48: a full disk breaks the journal, and a rewrite mends it.
func TestAFullDiskIsSurvived(t *testing.T) {
	m := crash.New(1, 1)
	j, _ := OpenOn(m)
	require.NoError(t, j.Compact(nil))
	require.NoError(t, j.Commit([]lease.Record{record(1)}))
	m.Full = true
	require.ErrorIs(t, j.Commit([]lease.Record{record(2)}), crash.ErrFull)
	require.ErrorIs(t, j.Err(), ErrBroken)
	require.ErrorIs(t, j.Commit([]lease.Record{record(3)}), ErrBroken)
	require.ErrorIs(t, j.Compact([]lease.Record{record(1)}), crash.ErrFull)
	m.Full = false
	require.ErrorIs(t, j.Commit([]lease.Record{record(3)}), ErrBroken, "only a rewrite mends it: nobody knows what is on disk")
	require.NoError(t, j.Compact([]lease.Record{record(1)}))
	require.NoError(t, j.Commit([]lease.Record{record(4)}))
	_, found := OpenOn(m)
	require.Equal(t, []lease.Record{record(1), record(4)}, found.Records)
}

// hazard 48: a directory that cannot be written to is no reason not to start.
func TestADirectoryThatIsNotThereIsSurvived(t *testing.T) {
	j, found := Open(filepath.Join(t.TempDir(), "absent"))
	require.True(t, found.Fresh)
	require.ErrorIs(t, j.Compact(nil), ErrBroken)
	require.NoError(t, j.Close())
	_, err := Read(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// behaviour C5: whatever the bytes, reading them ends and panics nowhere.
func FuzzScan(f *testing.F) {
	b := []byte(header)
	for i := range 5 {
		b = appendFrame(b, record(i), 0)
	}
	f.Add(append(b, make([]byte, 100)...))
	f.Add(b[:len(b)-3])
	f.Fuzz(func(t *testing.T, b []byte) {
		records, _ := scan(b)
		var again []byte
		for _, r := range records {
			again = appendFrame(again, r, 0)
		}
		if got, _ := scan(append([]byte(header), again...)); len(got) != len(records) {
			t.Fatalf("%d records, written and read again %d", len(records), len(got))
		}
	})
}
