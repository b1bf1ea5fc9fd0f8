package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// input is a ClientHello as a real client sent it, byte by byte.
func input(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return b
}

// paced sends parts of data with a pause between them and says who answers.
func (w *world) paced(source netip.Addr, port uint16, data []byte, size int, pause time.Duration) string {
	w.t.Helper()
	c, err := Dial(w.t.Context(), w.VMs, source, netip.AddrPortFrom(VLANIP, port))
	require.NoError(w.t, err)
	defer func() { _ = c.Close() }()
	require.NoError(w.t, c.SetNoDelay(true))
	for tick := time.NewTicker(pause); len(data) > size; {
		_, err := c.Write(data[:size])
		require.NoError(w.t, err)
		data = data[size:]
		<-tick.C
	}
	name, err := hear(c, data, 0)
	if err != nil {
		return unheard(err)
	}
	return name
}

// case C29; hazards 21, 160, 161: a hello that is longer than a packet.
func TestAPostQuantumHelloInTwoSegments(t *testing.T) {
	w := newWorld(t).start()
	for _, c := range []struct {
		file, want string
		port       uint16
	}{{"tls-pq-1600", "a-api", 6443}, {"tls-oauth-b", "b-oauth", 443}} {
		data := input(t, c.file)
		require.Equal(t, c.want, w.paced(Stranger, c.port, data, 1300, 3*time.Second), c.file)
		w.until(2*time.Second, "the backend has all of "+c.file, func() bool { return bytes.Equal(data, w.backends[c.want].First()) })
	}
}

// case C30; hazard 160.
func TestAServerNameSplitAcrossRecords(t *testing.T) {
	w := newWorld(t).start()
	data := input(t, "tls-two-records-split-in-sni")
	require.Equal(t, "a-konnectivity", w.from(WorkerB, 443, data, 0))
	require.Equal(t, "a-konnectivity", w.paced(WorkerB, 443, data, 1, 20*time.Millisecond))
	w.until(2*time.Second, "the backend has all of it", func() bool { return bytes.Equal(data, w.backends["a-konnectivity"].First()) })
	require.Equal(t, "b-api", w.from(Stranger, 6443, Hello{Name: []byte(fqdn("api", "b")), Record: 1}.Bytes(), 0), "one byte in each record")
}

// case C30: who says five bytes and stops is closed after 15 s, and reaches nobody.
func TestASilentClientIsClosed(t *testing.T) {
	// Envoy's timers count from the time at which its loop woke up.
	const timeout, early, late = 15 * time.Second, 100 * time.Millisecond, 5 * time.Second
	w := newWorld(t).start()
	accepted := map[string]int{}
	for name, b := range w.backends {
		accepted[name] = b.Accepted()
	}
	for _, port := range []uint16{443, 6443} {
		began := time.Now()
		c, err := Dial(t.Context(), w.VMs, WorkerA, netip.AddrPortFrom(VLANIP, port))
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		_, err = c.Write(input(t, "tls-oauth-b")[:5])
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(began.Add(2*timeout)))
		_, err = c.Read(make([]byte, 1))
		require.Equal(t, "closed", unheard(err))
		require.WithinRange(t, time.Now(), began.Add(timeout-early), began.Add(timeout+late), "closed at the inspector's timeout")
	}
	for name, b := range w.backends {
		require.Equal(t, accepted[name], b.Accepted(), "%s heard of nobody", name)
	}
}

// case C31; hazards 30, 154: the letters' case does not matter.
func TestUpperCaseAndGreaseWithEncryptedHello(t *testing.T) {
	w := newWorld(t).start()
	require.Equal(t, "a-oauth", w.from(WorkerB, 443, input(t, "tls-upper-sni"), 0))
	require.Equal(t, "a-ignition", w.from(WorkerB, 443, input(t, "tls-grease-ech"), 0), "the outer name decides")
}

// case C32; hazards 4, 152, 153, 166, 237: four hellos on two ports from three
// sources.
func TestSourceAndNameOfRealHellos(t *testing.T) {
	w := newWorld(t).start()
	cases := []struct {
		file          string
		port          uint16
		a, b, unknown string
	}{
		{"tls-no-sni", 6443, "a-api", "b-api", "closed"},
		{"tls-sni-kubernetes-default-svc", 6443, "a-api", "b-api", "closed"},
		{"tls-pq-1600", 6443, "a-api", "a-api", "a-api"},
		{"tls-oauth-b", 6443, "a-api", "b-api", "closed"}, // no API name of 6443: behaviour E2
		{"tls-pq-1600", 443, "closed", "closed", "closed"},
		{"tls-sni-kubernetes-default-svc", 443, "a-api", "b-api", "closed"},
		{"tls-no-sni", 443, "a-konnectivity", "b-konnectivity", "closed"},
		{"tls-oauth-b", 443, "b-oauth", "b-oauth", "b-oauth"},
	}
	for _, c := range cases {
		for source, want := range map[netip.Addr]string{WorkerA: c.a, WorkerB: c.b, Stranger: c.unknown} {
			require.Equal(t, want, w.from(source, c.port, input(t, c.file), 0), "%s on %d from %s", c.file, c.port, source)
		}
	}
}

// case C32: one source address that both claim loses its alias, nothing else.
func TestASourceThatBothClaimLosesItsAliasAlone(t *testing.T) {
	w := newWorld(t)
	w.edit(func(p map[string]any) {
		for name, b := range backendsOf(p) {
			if ranges, ok := b["sourcePrefixRanges"].([]any); ok {
				b["sourcePrefixRanges"] = append(ranges, WorkerA2.String()+"/32")
				require.NotEmpty(t, name)
			}
		}
	})
	w.start()
	require.Equal(t, "closed", w.from(WorkerA2, 6443, Named(""), 0))
	require.Equal(t, "closed", w.from(WorkerA2, 443, Named("kubernetes"), 0))
	require.Equal(t, "a-api", w.from(WorkerA2, 6443, Named(fqdn("api", "a")), 0), "names do not depend on sources")
	require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0))
	require.Equal(t, "b-api", w.from(WorkerB, 6443, Named(""), 0))
	require.InDelta(t, 3, w.metric(`oooi_xds_problems{reason="DuplicateSourceIP"}`), 0)
}

// behaviour E4: with one attachment the fallback takes any source.
func TestWithOneAttachmentAHelloWithoutNameReachesItsKonnectivity(t *testing.T) {
	w := newWorld(t)
	one, err := os.ReadFile("../../xds-manager/internal/translate/testdata/one-attachment/in.json")
	require.NoError(t, err)
	require.NoError(t, w.WriteSnapshot(one))
	w.start()
	for _, source := range []netip.Addr{WorkerA, WorkerB, Stranger} {
		require.Equal(t, "a-konnectivity", w.from(source, 443, input(t, "tls-no-sni"), 0), "from %s", source)
		require.Equal(t, "closed", w.from(source, 443, Named("www.example.net"), 0), "an unknown name never takes the fallback")
	}
	require.Equal(t, "closed", w.from(Stranger, 443, []byte("plain bytes\r\n\r\n"), 0), "plain bytes neither")
}

// hazard 163: much plain text at once is not cut on the way.
func TestMuchPlainTextAtOnceReachesTheOwnAPIServer(t *testing.T) {
	w := newWorld(t).start()
	data := append([]byte("POST /version HTTP/1.1\r\nHost: x\r\n\r\n"), bytes.Repeat([]byte("x"), 60<<10)...)
	c := w.open(1, WorkerA, 6443, data, "a-api")[0]
	require.NoError(t, c.CloseWrite())
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	rest, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Len(t, rest, len(data)-len(w.backends["a-api"].First())+len("bye"), "every byte arrived, and came back but for the first read")
}

// hazards 175, 181; behaviour E13: what the pods run as, seen from the kernel.
func TestBothProgramsRunWithoutAnyRight(t *testing.T) {
	w := newWorld(t).start()
	for name, p := range map[string]interface{ PID() (int, error) }{"manager": w.Manager, "envoy": w.Envoy} {
		pid, err := p.PID()
		require.NoError(t, err)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		require.NoError(t, err)
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			require.Contains(t, string(b), set+":\t0000000000000000", name)
		}
	}
	require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0))
}
