package dns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// Names that every client resolves, and what it has to find.
const (
	foreign = "example.org"
	alias   = "kubernetes.default.svc.cluster.local"
	nobody  = "nosuch.test"
	pending = "x.apps.example-hcp-b.clusters.example.com"
)

// lines is what lookup programs print: a name and its addresses, sorted.
func lines(out string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(out) {
		name, addrs, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[name] = addrs
	}
	return found
}

var resolved = map[string]string{
	api: "192.0.2.4", app: "192.0.2.200", host: WorkerIP, alias: "192.0.2.4", "kubernetes": "192.0.2.4", nobody: "not found",
}

func names() []string { return []string{api, app, host, alias, "kubernetes", nobody} }

// Hazards 93, 94, 110 to 113: dig and kdig, with and without EDNS, by UDP and TCP.
func TestDig(t *testing.T) {
	r := ready(t)
	for _, flags := range [][]string{{}, {"+noedns"}, {"+tcp"}, {"+dnssec"}, {"+bufsize=512"}, {"+cookie"}} {
		t.Run("dig "+strings.Join(flags, " "), func(t *testing.T) {
			for q, want := range map[string]string{
				api + " A":                      "NOERROR 192.0.2.4",
				api + " AAAA":                   "NOERROR",
				app + " A":                      "NOERROR 192.0.2.200",
				app + " HTTPS":                  "NOERROR",
				strings.ToUpper(app) + " A":     "NOERROR 192.0.2.200",
				pending + " A":                  "NOERROR",
				foreign + " A":                  "NOERROR 198.51.100.9",
				nobody + " A":                   "NXDOMAIN",
				"101.2.0.192.in-addr.arpa. PTR": "NOERROR " + host + ".",
				"102.2.0.192.in-addr.arpa. PTR": "NXDOMAIN",
				alias + " SRV":                  "NOERROR",
				"apps.example-hcp-a.clusters.example.com A": "NOERROR",
			} {
				got, err := r.Dig(t.Context(), r.VM, append(append([]string{"@" + ServerIP}, flags...), strings.Fields(q)...)...)
				require.NoError(t, err)
				require.Equal(t, want, got, q)
			}
		})
	}
	t.Run("dig takes a big answer by TCP after TC", func(t *testing.T) {
		got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, "big.test", "TXT")
		require.NoError(t, err)
		require.Greater(t, len(got), 3000)
	})
	t.Run("dig ANY by UDP is small", func(t *testing.T) {
		got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, "+notcp", api, "ANY")
		require.NoError(t, err)
		require.Equal(t, `NOERROR "RFC8482" ""`, got)
	})
	for _, flags := range [][]string{{}, {"+edns"}, {"+tcp"}, {"+edns", "+dnssec"}} {
		t.Run("kdig "+strings.Join(flags, " "), func(t *testing.T) {
			for q, want := range map[string]string{api: "192.0.2.4\n", app: "192.0.2.200\n", foreign: "198.51.100.9\n", pending: ""} {
				out, err := r.VM.Run(t.Context(), append(append([]string{"kdig", "@" + ServerIP, "+short"}, flags...), q, "A")...)
				require.NoError(t, err)
				require.Equal(t, want, out, q)
			}
		})
	}
	requireNoLeak(t, r)
}

// requireNoLeak: whatever the clients asked, no owned name reached the upstream.
func requireNoLeak(t *testing.T, r *Rig) {
	t.Helper()
	for _, q := range r.Asked() {
		for _, ours := range []string{api, "apps.example-hcp", "kubernetes.default", "2.0.192.in-addr.arpa"} {
			require.NotContains(t, q, ours)
		}
	}
}

// Hazards 93, 111: C libraries and Go, as the programs in a VM use them.
func TestStubResolvers(t *testing.T) {
	r := ready(t)
	require.NoError(t, r.VM.Resolver(t.Context(), ServerIP))
	root, err := Root()
	require.NoError(t, err)
	compile := func(name string, args ...string) string {
		out := filepath.Join(r.Dir, name)
		said, err := exec.CommandContext(t.Context(), args[0], append(args[1:], "-o", out, "testdata/lookup.c")...).CombinedOutput()
		require.NoError(t, err, string(said))
		return out
	}
	netgo, err := Build(t.Context(), r.Dir, "netgo", filepath.Join(root, "e2e"), "./dns/lookup", "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false -tags=netgo")
	require.NoError(t, err)
	cgo, err := Build(t.Context(), r.Dir, "netcgo", filepath.Join(root, "e2e"), "./dns/lookup", "CGO_ENABLED=1", "GOFLAGS=-trimpath -buildvcs=false -tags=netcgo")
	require.NoError(t, err)
	glibc, musl := compile("glibc", "gcc"), compile("musl", "musl-gcc", "-static")
	for _, tc := range []struct {
		name, program string
		env           []string
	}{
		{"glibc", glibc, nil},
		{"glibc with EDNS", glibc, []string{"RES_OPTIONS=edns0"}},
		{"glibc by TCP", glibc, []string{"RES_OPTIONS=use-vc"}},
		{"glibc one question at a time", glibc, []string{"RES_OPTIONS=single-request"}},
		{"glibc with a socket for each question", glibc, []string{"RES_OPTIONS=single-request-reopen"}},
		{"glibc with many dots", glibc, []string{"RES_OPTIONS=ndots:5"}},
		{"musl", musl, nil},
		{"Go's own resolver", netgo, nil},
		{"Go through the C library", cgo, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := r.VM.Exec(t.Context(), lab.Spec{Args: append([]string{tc.program}, names()...), Env: tc.env})
			require.NoError(t, err)
			require.Equal(t, resolved, lines(out))
		})
	}
	t.Run("busybox", func(t *testing.T) {
		for name, want := range map[string]string{api: "192.0.2.4", app: "192.0.2.200", foreign: "198.51.100.9"} {
			out, err := r.VM.Run(t.Context(), "busybox", "nslookup", name, ServerIP)
			require.NoError(t, err)
			require.Contains(t, out, "Address: "+want)
			require.NotContains(t, out, "NXDOMAIN")
		}
	})
	t.Run("a search list is walked past what does not exist", func(t *testing.T) {
		require.NoError(t, r.VM.WriteFile(t.Context(), "/etc/resolv.conf",
			"nameserver "+ServerIP+"\nsearch nosuch-a.test example-hcp-a.clusters.example.com\noptions ndots:2\n"))
		for _, program := range []string{glibc, musl, netgo, cgo} {
			out, err := r.VM.Run(t.Context(), program, "api")
			require.NoError(t, err)
			require.Equal(t, "192.0.2.4", lines(out)["api"], program)
		}
	})
	requireNoLeak(t, r)
}

// asked runs a resolver on the VM's loopback that forwards to us, and asks it.
func behind(t *testing.T, r *Rig, server string, spec lab.Spec) {
	t.Helper()
	p, err := r.VM.Start(spec)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	require.NoError(t, lab.Until(t.Context(), time.Minute, spec.Args[0], func(ctx context.Context) error {
		if err := p.Running(); err != nil {
			return err
		}
		got, err := r.Dig(ctx, r.VM, "@"+server, api)
		if err == nil && got != "NOERROR 192.0.2.4" {
			err = errors.New(got)
		}
		return err
	}), p.Output())
	for range 2 { // the second time from its cache
		for q, want := range map[string]string{
			api + " A":     "NOERROR 192.0.2.4",
			api + " AAAA":  "NOERROR",
			app + " A":     "NOERROR 192.0.2.200",
			app + " HTTPS": "NOERROR",
			pending + " A": "NOERROR",
			foreign + " A": "NOERROR 198.51.100.9",
			nobody + " A":  "NXDOMAIN",
			host + " A":    "NOERROR " + WorkerIP,
			"apps.example-hcp-a.clusters.example.com A": "NOERROR",
			"example-hcp-a.clusters.example.com A":      "NOERROR",
			"101.2.0.192.in-addr.arpa. PTR":             "NOERROR " + host + ".",
		} {
			got, err := r.Dig(t.Context(), r.VM, append([]string{"@" + server}, strings.Fields(q)...)...)
			require.NoError(t, err)
			require.Equal(t, want, got, q)
		}
	}
	requireNoLeak(t, r)
}

// negative: what did not exist is seen soon after it does, though a cache stands
// between (hazards 95 and 97).
func negative(t *testing.T, r *Rig, server string) {
	t.Helper()
	got, err := r.Dig(t.Context(), r.VM, "@"+server, pending)
	require.NoError(t, err)
	require.Equal(t, "NOERROR", got)
	require.NoError(t, r.Snapshot(`{"name": "*.apps.example-hcp-b.clusters.example.com", "vlan": {"policy": "DNS_POLICY_NODATA"}`,
		`{"name": "*.apps.example-hcp-b.clusters.example.com", "vlan": {"policy": "DNS_POLICY_ANSWER", "addresses": ["192.0.2.210"]}`))
	began := time.Now()
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the new name", func(ctx context.Context) error {
		got, err := r.Dig(ctx, r.VM, "@"+server, pending)
		if err == nil && got != "NOERROR 192.0.2.210" {
			err = errors.New(got)
		}
		return err
	}))
	require.Less(t, time.Since(began), 20*time.Second, "five seconds of negative caching, and the file's poll")
}

// unbound as a caching resolver in front, with mixed case; RFC 8020: a name that
// is empty does not hide what is below it.
func TestBehindUnbound(t *testing.T) {
	r := ready(t)
	conf := filepath.Join(r.Dir, "unbound.conf")
	require.NoError(t, os.WriteFile(conf, []byte(`server:
  interface: 127.0.0.1
  port: 53
  username: ""
  chroot: ""
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  module-config: "iterator"
  use-caps-for-id: yes
  harden-below-nxdomain: yes
  qname-minimisation: yes
  do-not-query-localhost: no
  local-zone: "test." nodefault
  local-zone: "2.0.192.in-addr.arpa." nodefault
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: `+ServerIP+"\n"), 0o600))
	behind(t, r, "127.0.0.1", lab.Spec{Args: []string{"unbound", "-d", "-c", conf}})
	negative(t, r, "127.0.0.1")
}

func TestBehindKnotResolver(t *testing.T) {
	r := ready(t)
	dir := filepath.Join(r.Dir, "kresd")
	require.NoError(t, os.Mkdir(dir, 0o755)) //nolint:gosec // a test's
	conf := filepath.Join(dir, "kresd.conf")
	require.NoError(t, os.WriteFile(conf, []byte("net.listen('127.0.0.1', 53)\ntrust_anchors.remove('.')\ncache.size = 10 * MB\n"+
		"policy.add(policy.all(policy.FORWARD('"+ServerIP+"')))\n"), 0o600))
	behind(t, r, "127.0.0.1", lab.Spec{Args: []string{"kresd", "-n", "-c", conf, dir}})
	negative(t, r, "127.0.0.1")
}

// The hosted cluster's own DNS forwards to us: a CoreDNS with cache and forward.
func TestBehindCoreDNS(t *testing.T) {
	r := ready(t)
	conf := filepath.Join(r.Dir, "Corefile")
	require.NoError(t, os.WriteFile(conf, []byte(". {\n bind 127.0.0.1\n errors\n cache 900\n forward . "+ServerIP+"\n}\n"), 0o600))
	behind(t, r, "127.0.0.1", lab.Spec{Args: []string{filepath.Join(r.Dir, "coredns"), "-conf", conf}})
	negative(t, r, "127.0.0.1")
}

// systemd-resolved asks an NXDOMAIN again without EDNS on the same port.
func TestBehindSystemdResolved(t *testing.T) {
	daemon := tool(t, "resolved/lib/systemd/systemd-resolved")
	r := ready(t)
	libs, err := filepath.Glob(filepath.Join(filepath.Dir(daemon), "../../usr/lib/*/systemd"))
	require.NoError(t, err)
	require.NotEmpty(t, libs)
	// It wants a user of its own and a directory that this user owns.
	_, err = r.VM.Run(t.Context(), "sh", "-ec", fmt.Sprintf(`
		cp /etc/passwd /run/passwd; cp /etc/group /run/group
		echo systemd-resolve:x:990:990::/:/usr/sbin/nologin >>/run/passwd; echo systemd-resolve:x:990: >>/run/group
		mount --bind /run/passwd /etc/passwd; mount --bind /run/group /etc/group
		mkdir -p /run/systemd/resolve /run/systemd/resolved.conf.d; chown 990:990 /run/systemd/resolve
		printf '[Resolve]\nDNS=%s\nDomains=~.\nDNSSEC=no\nMulticastDNS=no\nLLMNR=no\n' >/run/systemd/resolved.conf.d/oooi.conf`, ServerIP))
	require.NoError(t, err)
	behind(t, r, "127.0.0.53", lab.Spec{Args: []string{daemon}, Env: []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":"), "SYSTEMD_LOG_TARGET=console"}})
	negative(t, r, "127.0.0.53")
}
