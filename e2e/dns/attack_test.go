package dns

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// attacker sends bytes as they are from the VM.
type attacker struct {
	rig     *Rig
	program string
}

func newAttacker(t *testing.T, r *Rig) attacker {
	t.Helper()
	program, err := Build(t.Context(), r.Dir, "attacker", filepath.Join(r.root, "e2e"), "./dns/attacker")
	require.NoError(t, err)
	return attacker{rig: r, program: program}
}

// send returns what comes back, in hex; nothing where nothing does.
func (a attacker) send(t *testing.T, network string, message []byte) string {
	t.Helper()
	out, err := a.rig.VM.Exec(t.Context(), lab.Spec{Args: []string{a.program, "send", network, ServerIP + ":53"}, Stdin: bytes.NewReader(message)})
	require.NoError(t, err)
	return strings.TrimSpace(out)
}

// Cases C18 to C21: the bytes of the cases from a VM to a running server, by UDP
// and TCP, give the bytes that are right, and the upstream sees none of them.
// Hazards 93 to 96, 112 and 113.
func TestCases(t *testing.T) {
	r := ready(t)
	a := newAttacker(t, r)
	dir := filepath.Join(r.root, "corednsplugin", "testdata", "cases")
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return data
	}
	for _, name := range []string{"dns-aaaa-api", "dns-https-apps", "dns-0x20-a", "dns-any-api"} {
		want := strings.TrimSpace(string(read(name + ".want")))
		for _, network := range []string{"udp", "tcp"} {
			require.Equal(t, want, a.send(t, network, read(name)), "%s by %s", name, network)
		}
	}
	// C19 again with other types in place of HTTPS.
	question, want := read("dns-https-apps"), strings.TrimSpace(string(read("dns-https-apps.want")))
	at := bytes.Index(question, []byte{0, 0, 65, 0, 1}) + 1
	require.Positive(t, at)
	for _, qtype := range []uint16{16, 33, 64, 257} {
		binary.BigEndian.PutUint16(question[at:], qtype)
		other := want[:2*at] + fmt.Sprintf("%04x", qtype) + want[2*at+4:]
		require.Equal(t, other, a.send(t, "udp", question), "type %d", qtype)
	}
	requireNoLeak(t, r)
}

// What is no query harms nobody: it is refused or passed over, and the server
// goes on.
func TestHostileMessages(t *testing.T) {
	r := ready(t)
	a := newAttacker(t, r)
	header := func(flags, questions byte) []byte {
		return []byte{0x12, 0x34, flags, 0, 0, questions, 0, 0, 0, 0, 0, 0}
	}
	deep := bytes.Repeat([]byte("\x01a"), 200)
	const silence, formErr, servFail, notImp = "", "1", "2", "4"
	for _, tc := range []struct {
		name    string
		message []byte
		want    string // the response code, in hex
	}{
		{"nothing", nil, silence},
		{"half a header", []byte{0x12, 0x34, 1, 0, 0}, silence},
		{"a header alone", header(1, 0), formErr},
		{"a question that is not there", header(1, 1), servFail},
		{"a label beyond the end", append(header(1, 1), 63, 'a'), formErr},
		{"a name that points at itself", append(header(1, 1), 0xc0, 12, 0, 1, 0, 1), formErr},
		{"a name of 400 bytes", append(append(header(1, 1), deep...), 0, 0, 1, 0, 1), formErr},
		{"two hundred questions", append(header(1, 200), bytes.Repeat([]byte{0, 0, 1, 0, 1}, 200)...), formErr},
		{"an answer", append(header(0x81, 1), 0, 0, 1, 0, 1), silence},
		{"a status request", append(header(0x11, 1), 0, 0, 1, 0, 1), notImp},
		{"an update", append(header(0x29, 1), 0, 0, 6, 0, 1), notImp},
		{"60,000 bytes of noise", bytes.Repeat([]byte{0xff, 0x00, 0xc0}, 20_000), silence},
	} {
		for _, network := range []string{"udp", "tcp"} {
			reply := a.send(t, network, tc.message)
			if tc.want == silence {
				require.Empty(t, reply, "%s by %s", tc.name, network)
				continue
			}
			require.GreaterOrEqual(t, len(reply), 24, "%s by %s", tc.name, network)
			require.Equal(t, tc.want, reply[7:8], "%s by %s", tc.name, network)
			raw, err := hex.DecodeString(reply)
			require.NoError(t, err)
			require.LessOrEqual(t, len(raw), max(12, len(tc.message)), "%s by %s is amplified", tc.name, network)
		}
	}
	got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, api)
	require.NoError(t, err)
	require.Equal(t, "NOERROR 192.0.2.4", got)
	require.NoError(t, r.CoreDNS.Running())
	requireNoLeak(t, r)
}

// Behaviour D5: a VM with thousands of queries that no upstream answers has its
// share of what may wait, and is refused the rest; a VM of another cluster is
// served as if there were no such neighbour.
func TestSlowQueriesTakeNobodysRoom(t *testing.T) {
	r := ready(t)
	var slow strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&slow, "slow%d.test A\n", i)
	}
	file := filepath.Join(r.Dir, "slow")
	require.NoError(t, os.WriteFile(file, []byte(slow.String()), 0o600))
	load, err := r.VM.Start(lab.Spec{Args: []string{"dnsperf", "-s", ServerIP, "-a", WorkerIP, "-d", file, "-l", "300", "-Q", "1000", "-q", "5000", "-t", "10"}})
	require.NoError(t, err)
	exceeded := func(ctx context.Context) error {
		out, err := r.Pod.Run(ctx, "curl", "-sf", "-m", "2", "http://"+PodIP+":9094/metrics")
		if err == nil && strings.Contains(out, "\ncoredns_oooi_share_exceeded_total 0\n") {
			err = errors.New("nothing was refused")
		}
		return err
	}
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the share to be used up", exceeded))
	for i := range 10 {
		got, err := r.Dig(t.Context(), r.VM, "-b", OtherIP, "@"+ServerIP, "+tries=3", fmt.Sprintf("n%d.example.org", i))
		require.NoError(t, err)
		require.Equal(t, "NOERROR 198.51.100.9", got)
	}
	require.NoError(t, load.Running(), "the attack went on all the time")
	got, err := r.Dig(t.Context(), r.VM, "-b", WorkerIP, "@"+ServerIP, api)
	require.NoError(t, err)
	require.Equal(t, "NOERROR 192.0.2.4", got, "owned names take no room")
	require.NoError(t, load.Kill())
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the attacker's next query", func(ctx context.Context) error {
		got, err := r.Dig(ctx, r.VM, "-b", WorkerIP, "@"+ServerIP, "later.example.org")
		if err == nil && got != "NOERROR 198.51.100.9" {
			err = errors.New(got)
		}
		return err
	}))
}

// Thousands of connections with half a query each: they are ended after seconds,
// others are served meanwhile by UDP and by TCP, and nothing stays behind. (How
// many one source may open is the fence's to say, behaviour B5.)
func TestSlowConnections(t *testing.T) {
	const count = 3000
	r := ready(t)
	a := newAttacker(t, r)
	pid, err := r.CoreDNS.PID()
	require.NoError(t, err)
	descriptors := func() int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		require.NoError(t, err)
		return len(fds)
	}
	before := descriptors()
	p, err := r.VM.Start(lab.Spec{Args: []string{a.program, "hold", ServerIP + ":53", fmt.Sprint(count)}})
	require.NoError(t, err)
	require.NoError(t, lab.Until(t.Context(), time.Minute, "connections", func(context.Context) error {
		if n := descriptors(); n < count/2 {
			return fmt.Errorf("%d descriptors", n)
		}
		return nil
	}))
	for i := range 5 {
		for _, args := range [][]string{{api}, {"+tcp", api}, {fmt.Sprintf("n%d.example.org", i)}} {
			got, err := r.Dig(t.Context(), r.VM, append([]string{"@" + ServerIP, "+tries=3"}, args...)...)
			require.NoError(t, err)
			require.Contains(t, got, "NOERROR ")
		}
	}
	require.Less(t, rss(t, pid), 100<<10, "KiB")
	require.NoError(t, p.Kill())
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the connections' end", func(context.Context) error {
		if n := descriptors(); n > before+20 {
			return errors.New("still " + fmt.Sprint(n))
		}
		return nil
	}))
}

// rss is what a process holds in memory, in KiB.
func rss(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	return figure(t, string(text), `VmRSS:\s+(\d+) kB`)
}
