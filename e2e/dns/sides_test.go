package dns

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

const (
	api  = "api.example-hcp-a.clusters.example.com"
	app  = "a.b.apps.example-hcp-a.clusters.example.com"
	host = "example-hcp-a-7k2lq-x9fzt.example-hcp-a.clusters.example.com"
)

// Behaviours D1, D4 and B5, case C27; hazards 99 to 103, 151, 254: who gets
// which answer on which socket, and what the VLAN can reach besides.
func TestSides(t *testing.T) {
	r := ready(t)
	for _, tc := range []struct {
		name string
		from *lab.Host
		args []string
		want string
	}{
		{"a worker", r.VM, []string{"@" + ServerIP, api}, "NOERROR 192.0.2.4"},
		{"a worker by TCP", r.VM, []string{"@" + ServerIP, "+tcp", api}, "NOERROR 192.0.2.4"},
		{"a pod", r.Pod, []string{"@" + PodIP, api}, "NOERROR 172.30.20.1"},
		{"a pod by TCP", r.Pod, []string{"@" + PodIP, "+tcp", api}, "NOERROR 172.30.20.1"},
		{"a stranger on the VLAN", r.VM, []string{"-b", StrangerIP, "@" + ServerIP, api}, "REFUSED"},
		{"a stranger on the VLAN, for a foreign name", r.VM, []string{"-b", StrangerIP, "@" + ServerIP, "example.org"}, "REFUSED"},
		{"another stranger on the VLAN", r.VM, []string{"-b", FarIP, "@" + ServerIP, api}, "REFUSED"},
		{"another stranger on the VLAN, for a foreign name", r.VM, []string{"-b", FarIP, "@" + ServerIP, "example.org"}, "REFUSED"},
		{"a worker, for a foreign name", r.VM, []string{"@" + ServerIP, "example.org"}, "NOERROR 198.51.100.9"},
		{"a pod, for a foreign name", r.Pod, []string{"@" + PodIP, "example.org"}, "NOERROR 198.51.100.9"},
		{"a pod, for a name that only the VLAN has", r.Pod, []string{"@" + PodIP, "api.example-hcp-b.clusters.example.com"}, "NOERROR 198.51.100.9"},
		{"the server's version is nobody's business", r.VM, []string{"@" + ServerIP, "CH", "TXT", "version.bind"}, "REFUSED"},
		{"the apex by TCP", r.VM, []string{"@" + ServerIP, "+tcp", "SOA", "example-hcp-a.clusters.example.com"}, "NOERROR ns.example-hcp-a.clusters.example.com. hostmaster.example-hcp-a.clusters.example.com. 1 3600 600 86400 5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := r.Dig(t.Context(), tc.from, tc.args...)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	t.Run("a VM that routes through us does not reach the pod address", func(t *testing.T) {
		for _, args := range [][]string{{"@" + PodIP, api}, {"@" + PodIP, "+tcp", api}} {
			requireRefused(t, r, r.VM, args...)
		}
		for _, port := range []string{"9092/health", "9093/ready", "9094/metrics"} {
			out, err := r.VM.Run(t.Context(), "curl", "-s", "-m", "10", "-w", "%{exitcode}", "http://"+PodIP+":"+port)
			require.Error(t, err)
			require.Equal(t, "7", out, "it could not connect, and needed no time to know")
			_, err = r.Pod.Run(t.Context(), "curl", "-sf", "-m", "10", "http://"+PodIP+":"+port)
			require.NoError(t, err)
		}
	})
	t.Run("a pod that routes through us does not reach the VLAN address", func(t *testing.T) {
		requireRefused(t, r, r.Pod, "@"+ServerIP, api)
	})
	t.Run("every socket that listens is bound to a device", func(t *testing.T) {
		out, err := r.Server.Run(t.Context(), "ss", "-Hlntu")
		require.NoError(t, err)
		require.Equal(t, 7, strings.Count(out, "\n"), out)
		for line := range strings.Lines(out) {
			require.Contains(t, line, "%", line)
		}
	})
	requireNoLeak(t, r)
}

// requireRefused shows that no socket is there for a question: the kernel says so.
func requireRefused(t *testing.T, r *Rig, h *lab.Host, args ...string) {
	t.Helper()
	out, err := r.Dig(t.Context(), h, args...)
	require.Error(t, err, out)
	require.Contains(t, out+err.Error(), "connection refused")
}

// Behaviour D1, case C27: without an internal proxy service the pod side forwards
// the very name that the VLAN side answers, and strangers get neither.
func TestWithoutAnInternalProxyService(t *testing.T) {
	r := idle(t)
	require.NoError(t, r.Snapshot(`"pod": {"policy": "DNS_POLICY_ANSWER", "addresses": ["172.30.20.1"]}`, `"pod": {"policy": "DNS_POLICY_FORWARD"}`))
	require.NoError(t, r.Start(t.Context()))
	ask := func(h *lab.Host, args ...string) string {
		got, err := r.Dig(t.Context(), h, args...)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "NOERROR 192.0.2.4", ask(r.VM, "@"+ServerIP, api))
	require.NotContains(t, r.Asked(), api+". A")
	for _, stranger := range []string{StrangerIP, FarIP} {
		for _, name := range []string{api, "example.org"} {
			require.Equal(t, "REFUSED", ask(r.VM, "-b", stranger, "@"+ServerIP, name), "%s for %s", stranger, name)
		}
	}
	require.NotContains(t, r.Asked(), api+". A")
	require.Equal(t, "NOERROR 198.51.100.9", ask(r.Pod, "@"+PodIP, api))
	require.Contains(t, r.Asked(), api+". A")
}

// Behaviour D5, case C28; hazards 107, 108: upstreams that point back. Resolvers
// stand where such queries would arrive, and hear of none; none comes back to the
// server itself; owned names are answered, and the process stays.
func TestNothingLeavesForUpstreamsThatPointBack(t *testing.T) {
	const service = "172.30.20.2"
	for _, tc := range []struct{ name, upstream, resolv, reason string }{
		{"the node lists our own Service", "resolv.conf", "nameserver " + service + "\n", "UpstreamIsSelf"},
		{"the node lists loopback", "resolv.conf", "nameserver 127.0.0.1\n", "UpstreamIsSelf"},
		{"the node lists nothing", "resolv.conf", "", "NoUpstreams"},
		{"the user names our address", ServerIP, "nameserver " + UpstreamIP + "\n", "UpstreamIsSelf"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := idle(t)
			conf := filepath.Join(r.Dir, "resolv.conf")
			require.NoError(t, Replace(conf, tc.resolv))
			r.Env = []string{"OOOI_RESOLV_CONF=" + conf}
			require.NoError(t, r.Node.Route(t.Context(), "local "+service+"/32 dev lo"))
			watchers := []*lab.Process{r.Upstream}
			for at, h := range map[string]*lab.Host{service: r.Node, "127.0.0.1": r.Server} {
				p, err := h.Start(lab.Spec{Args: []string{filepath.Join(r.Dir, "upstream"), "-listen", at + ":53"}})
				require.NoError(t, err)
				watchers = append(watchers, p)
				require.NoError(t, lab.Until(t.Context(), time.Minute, "the resolver at "+at, func(ctx context.Context) error {
					_, err := r.Dig(ctx, h, "@"+at, "up.test")
					return err
				}))
			}
			require.NoError(t, r.Snapshot(`"upstreams": ["198.51.100.53"]`, `"upstreams": ["`+tc.upstream+`"]`))
			require.NoError(t, r.Start(t.Context()))
			const asked = 20
			before := r.queries(t)
			for i := range asked {
				began := time.Now()
				got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, fmt.Sprintf("n%d.example.org", i))
				require.NoError(t, err)
				require.Equal(t, "REFUSED", got)
				require.Less(t, time.Since(began), 2*time.Second, "it fails fast")
			}
			require.Equal(t, before+asked, r.queries(t), "no query came back")
			for _, p := range watchers {
				require.NotContains(t, p.Output(), "example.org", "no query left")
			}
			got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, api)
			require.NoError(t, err)
			require.Equal(t, "NOERROR 192.0.2.4", got)
			out, err := r.Pod.Run(t.Context(), "curl", "-sf", "-m", "10", "http://"+PodIP+":9094/metrics")
			require.NoError(t, err)
			require.Contains(t, out, `coredns_oooi_problems{reason="`+tc.reason+`"} 1`)
			require.NoError(t, r.CoreDNS.Running())
		})
	}
}

// queries is how many queries the server has seen.
func (r *Rig) queries(t *testing.T) int {
	t.Helper()
	out, err := r.Pod.Run(t.Context(), "curl", "-sf", "-m", "10", "http://"+PodIP+":9094/metrics")
	require.NoError(t, err)
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^coredns_oooi_queries_total\{.*\} (\S+)$`).FindAllStringSubmatch(out, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		sum += int(n)
	}
	return sum
}

// Behaviour B5, hazard 182: a neighbour that knows our address by an old MAC is
// corrected after the start.
func TestAddressIsAnnounced(t *testing.T) {
	r := idle(t)
	require.NoError(t, r.Snapshot())
	const stale = "02:00:5e:ff:ff:ff"
	_, err := r.VM.Run(t.Context(), "ip", "neigh", "replace", ServerIP, "lladdr", stale, "dev", "eth0", "nud", "stale")
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context()))
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the neighbour to learn", func(ctx context.Context) error {
		out, err := r.VM.Run(ctx, "ip", "neigh", "show", ServerIP)
		if err != nil {
			return err
		}
		if strings.Contains(out, stale) {
			return fmt.Errorf("still %s", out)
		}
		return nil
	}))
}

// Behaviour D10: on SIGTERM the server goes on answering for a while.
func TestLameduck(t *testing.T) {
	r := ready(t)
	stopped := make(chan error, 1)
	go func() { stopped <- r.CoreDNS.Stop(time.Minute) }()
	require.NoError(t, lab.Until(t.Context(), time.Minute, "lameduck", func(context.Context) error {
		if strings.Contains(r.CoreDNS.Output(), "lameduck") {
			return nil
		}
		return errors.New("not yet")
	}))
	got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, api)
	require.NoError(t, err)
	require.Equal(t, "NOERROR 192.0.2.4", got)
	require.NoError(t, <-stopped)
}
