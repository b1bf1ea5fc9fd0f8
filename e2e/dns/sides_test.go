package dns

import (
	"context"
	"errors"
	"fmt"
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
			_, err := r.Dig(t.Context(), r.VM, args...)
			require.Error(t, err)
		}
		for _, port := range []string{"9092/health", "9093/ready", "9094/metrics"} {
			_, err := r.VM.Run(t.Context(), "curl", "-sf", "-m", "1", "http://"+PodIP+":"+port)
			require.Error(t, err)
			_, err = r.Pod.Run(t.Context(), "curl", "-sf", "-m", "1", "http://"+PodIP+":"+port)
			require.NoError(t, err)
		}
	})
	t.Run("a pod that routes through us does not reach the VLAN address", func(t *testing.T) {
		_, err := r.Dig(t.Context(), r.Pod, "@"+ServerIP, api)
		require.Error(t, err)
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

// Behaviour B5, hazard 182: a neighbour that knows our address by an old MAC is
// corrected after the start.
func TestAddressIsAnnounced(t *testing.T) {
	r := idle(t)
	require.NoError(t, r.Snapshot())
	const stale = "02:00:5e:ff:ff:ff"
	_, err := r.VM.Run(t.Context(), "ip", "neigh", "replace", ServerIP, "lladdr", stale, "dev", "eth0", "nud", "stale")
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context()))
	require.NoError(t, lab.Until(t.Context(), 10*time.Second, "the neighbour to learn", func(ctx context.Context) error {
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
	go func() { stopped <- r.CoreDNS.Stop(20 * time.Second) }()
	require.NoError(t, lab.Until(t.Context(), 5*time.Second, "lameduck", func(context.Context) error {
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
