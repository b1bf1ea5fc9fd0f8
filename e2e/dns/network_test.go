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

// problems waits until the server's problems are those.
func problems(t *testing.T, r *Rig, want ...string) {
	t.Helper()
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the problems "+strings.Join(want, ", "), func(ctx context.Context) error {
		out, err := r.Pod.Run(ctx, "curl", "-sf", "-m", "10", "http://"+PodIP+":9094/metrics")
		if err != nil {
			return err
		}
		if n := strings.Count(out, "coredns_oooi_problems{"); n != len(want) {
			return fmt.Errorf("%d problems", n)
		}
		for _, reason := range want {
			if !strings.Contains(out, `coredns_oooi_problems{reason="`+reason+`"} 1`) {
				return errors.New("no " + reason)
			}
		}
		return nil
	}))
}

// Behaviour D4: sources beyond the VLAN need a route by the VLAN device. The
// route is missed, named, made and used, all without a restart.
func TestSourcesBeyondTheVLANNeedARoute(t *testing.T) {
	r := idle(t)
	require.NoError(t, r.Snapshot(`"upstreams"`, `"additionalSourceCidrs": ["203.0.113.0/24"], "upstreams"`))
	require.NoError(t, r.Start(t.Context()))
	problems(t, r, "NoVLANRoute")
	require.NoError(t, r.Server.Route(t.Context(), "203.0.113.0/24 via "+WorkerIP+" dev net1"))
	problems(t, r)
	got, err := r.Dig(t.Context(), r.VM, "-b", StrangerIP, "@"+ServerIP, api)
	require.NoError(t, err)
	require.Equal(t, "NOERROR 192.0.2.4", got)
}

// Behaviour B5, hazard 254: a pod that forwards and has no fence says so until it
// forwards no more. With a fence it says nothing.
func TestForwardingWithoutAFenceIsNamed(t *testing.T) {
	r := idle(t, "OOOI_FENCE=off")
	require.NoError(t, r.Snapshot())
	require.NoError(t, r.Start(t.Context()))
	problems(t, r, "ForwardingEnabled")
	require.NoError(t, r.Server.Sysctl(t.Context(), "net.ipv4.conf.net1.forwarding", "0"))
	problems(t, r)

	fenced := ready(t)
	forwards, err := fenced.Server.ReadFile(t.Context(), "/proc/sys/net/ipv4/conf/net1/forwarding")
	require.NoError(t, err)
	require.Equal(t, "1", strings.TrimSpace(forwards))
	problems(t, fenced)
}

// Behaviour B5: a VLAN device that is made anew has the name of the old one, and
// the sockets that were bound to that one hear nothing any more. Its loss is
// named; when it is back, the process ends, and what its kubelet starts is heard.
func TestAVLANDeviceThatIsMadeAnewIsServedAgain(t *testing.T) {
	r := ready(t)
	ask := func(h *lab.Host, server string) string {
		got, err := r.Dig(t.Context(), h, "@"+server, api)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "NOERROR 192.0.2.4", ask(r.VM, ServerIP))
	_, err := r.Server.Run(t.Context(), "ip", "link", "del", "net1")
	require.NoError(t, err)
	problems(t, r, "ListenerNotBound")
	require.NoError(t, r.CoreDNS.Running(), "there is nothing to start anew for yet")
	require.Equal(t, "NOERROR 172.30.20.1", ask(r.Pod, PodIP), "the pod side was never away")

	require.NoError(t, r.PlugVLAN(t.Context()))
	require.Error(t, r.CoreDNS.Wait(time.Minute))
	require.Error(t, r.CoreDNS.Running(), "it has ended")
	require.Contains(t, r.CoreDNS.Output(), "Ending, to be started anew: listener "+ServerIP)
	require.NoError(t, r.Start(t.Context()), "as the kubelet does")
	require.NoError(t, lab.Until(t.Context(), time.Minute, "the VLAN is served again", func(ctx context.Context) error {
		got, err := r.Dig(ctx, r.VM, "@"+ServerIP, api)
		if err == nil && got != "NOERROR 192.0.2.4" {
			err = errors.New(got)
		}
		return err
	}))
	problems(t, r)
}
