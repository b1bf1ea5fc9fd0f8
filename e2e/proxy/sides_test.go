package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// behaviour F3.
func TestAnExternalListenerReachesItsAttachmentsNamesAlone(t *testing.T) {
	w := newWorld(t).start()
	cases := []struct{ name, sni, want string }{
		{"oauth of its attachment", fqdn("oauth", "a"), "a-oauth"},
		{"ignition of its attachment", fqdn("ignition", "a"), "a-ignition"},
		{"konnectivity of its attachment", fqdn("konnectivity", "a"), "a-konnectivity"},
		{"oauth of another attachment", fqdn("oauth", "b"), "closed"},
		{"its API, which is not published", fqdn("api", "a"), "closed"},
		{"an alias", "kubernetes", "closed"},
		{"no name", "", "closed"},
	}
	for _, c := range cases {
		require.Equal(t, c.want, Probe(t.Context(), w.Hub, netip.Addr{}, netip.AddrPortFrom(PodIP, 20000), Named(c.sni), 0), c.name)
	}
	require.Equal(t, "refused", w.from(WorkerA, 20000, Named(fqdn("oauth", "a")), 0), "the external listener is not on the VLAN")
}

// webServer answers requests with its name and what it was asked, as JSON.
func webServer(t *testing.T, w *world, name string, addr netip.AddrPort) {
	t.Helper()
	l, err := Listen(w.VMs, addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveRaw(c, name)
		}
	}()
}

// serveRaw keeps the request's bytes: a library would hide how they were spelt.
func serveRaw(c net.Conn, name string) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
			head.WriteString(line)
		}
		if strings.Contains(head.String(), "Upgrade: websocket") {
			fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(c, r)
			return
		}
		body, _ := json.Marshal(map[string]string{"name": name, "head": head.String()})
		if strings.HasPrefix(head.String(), "GET /slow") {
			time.AfterFunc(17*time.Second, func() {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nServer: own\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			})
			continue
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nServer: own\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
}

// exchange sends raw bytes to port 80 of the VLAN address and reads one answer.
func exchange(t *testing.T, w *world, raw string) answer {
	t.Helper()
	c, err := Dial(t.Context(), w.VMs, WorkerA, netip.AddrPortFrom(VLANIP, 80))
	require.NoError(t, err)
	return speak(t, c, raw)
}

// speak sends raw bytes and reads one answer.
func speak(t *testing.T, c *net.TCPConn, raw string) answer {
	t.Helper()
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetDeadline(time.Now().Add(40*time.Second)))
	_, err := io.WriteString(c, raw)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{code: resp.StatusCode, server: resp.Header.Get("Server"), body: string(b)}
}

// answer is what matters of a response.
type answer struct {
	code         int
	server, body string
}

// behaviour E3; hazard 186.
func TestPort80RoutesByHostAndLeavesTheRequestAlone(t *testing.T) {
	w := newWorld(t)
	webServer(t, w, "a-web", netip.AddrPortFrom(VIPA, 80))
	w.start()
	for _, host := range []string{
		"console.apps.example-hcp-a.clusters.example.com", "console.apps.example-hcp-a.clusters.example.com:80",
		"x.y.apps.example-hcp-a.clusters.example.com", "CONSOLE.APPS.EXAMPLE-HCP-A.CLUSTERS.EXAMPLE.COM",
	} {
		got := exchange(t, w, "GET /a//b/%2e%2e/c?q=1 HTTP/1.1\r\nHost: "+host+"\r\nX-Mixed-CASE: 1\r\n\r\n")
		require.Equal(t, http.StatusOK, got.code, host)
		require.Equal(t, "own", got.server, "the server's own name is passed on")
		var seen struct{ Name, Head string }
		require.NoError(t, json.Unmarshal([]byte(got.body), &seen))
		require.Equal(t, "a-web", seen.Name)
		want := []string{"GET /a//b/%2e%2e/c?q=1 HTTP/1.1", "Host: " + host, "X-Mixed-CASE: 1", "x-forwarded-for: 192.0.2.101", "x-forwarded-proto: http"}
		require.Equal(t, want, lines(seen.Head), "the request is changed by X-Forwarded-* alone")
	}
	for _, host := range []string{"apps.example-hcp-a.clusters.example.com", "x.apps.example-hcp-b.clusters.example.com", "www.example.net", "192.0.2.4"} {
		got := exchange(t, w, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		require.Equal(t, http.StatusNotFound, got.code, host)
	}
}

// lines are a request's head, as it came.
func lines(head string) []string {
	return strings.Split(strings.TrimSuffix(head, "\r\n"), "\r\n")
}

// behaviour E3; hazard 186.
func TestPort80HasNoTimeoutAndPassesWebsockets(t *testing.T) {
	w := newWorld(t)
	webServer(t, w, "a-web", netip.AddrPortFrom(VIPA, 80))
	w.start()
	const host = "Host: x.apps.example-hcp-a.clusters.example.com\r\n"
	got := exchange(t, w, "GET /slow HTTP/1.1\r\n"+host+"\r\n")
	require.Equal(t, http.StatusOK, got.code, "an answer that takes 17 s arrives")

	c, err := Dial(t.Context(), w.VMs, WorkerA, netip.AddrPortFrom(VLANIP, 80))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(c, "GET /ws HTTP/1.1\r\n"+host+"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(c)
	ws, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	defer func() { _ = ws.Body.Close() }()
	require.Equal(t, http.StatusSwitchingProtocols, ws.StatusCode)
	_, err = io.WriteString(c, "\x81\x02hi")
	require.NoError(t, err)
	frame := make([]byte, 4)
	_, err = io.ReadFull(r, frame)
	require.NoError(t, err)
	require.Equal(t, "\x81\x02hi", string(frame), "frames pass as they are")
}
