package pods

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// checkOverride names another image by a RELATED_IMAGE_ variable in the
// Subscription, as a user of one registry for each component does. Its component
// follows, the others stay as they are (behaviour A8).
func (l *lab) checkOverride(t *testing.T, other *node.VM) {
	t.Helper()
	const dhcpd = "quay.io/densityops/oooi-dhcpd:other"
	l.loadImages(t, dhcpd)
	others := l.podUIDs(t, "dns", "proxy")
	_, err := l.Kubectl(t.Context(), "patch", "subscription", "-n", "oooi-system", "oooi", "--type=json",
		"-p", `[{"op":"add","path":"/spec/config/env/-","value":{"name":"RELATED_IMAGE_DHCPD","value":"`+dhcpd+`"}}]`)
	require.NoError(t, err)
	l.runs(t, "dhcp", dhcpd)
	l.settled(t, other, 11*time.Minute)
	require.Equal(t, others, l.podUIDs(t, "dns", "proxy"), "the image of DHCP replaced other pods")
	l.progress.Say("the Subscription's RELATED_IMAGE_DHCPD runs")
}

// checkOverrideInInfra names another image in the Infra: it replaces that
// component's pod alone (behaviour A8).
func (l *lab) checkOverrideInInfra(t *testing.T, vm, other *node.VM) {
	t.Helper()
	const coredns = "localhost/e2e/oooi-coredns:2"
	l.loadImages(t, coredns)
	others := l.podUIDs(t, "dhcp", "proxy")
	_, err := l.Kubectl(t.Context(), "patch", "-n", "clusters", "infra/tenant-vlan100", "--type=merge", "-p",
		`{"spec":{"infraComponents":{"dns":{"image":"`+coredns+`"}}}}`)
	require.NoError(t, err)
	l.runs(t, "dns", coredns)
	require.NoError(t, node.Wait(t.Context(), patience, "DNS to answer", l.resolves(vm, "api."+domainA, proxyIP)))
	l.settled(t, other, 12*time.Minute)
	require.Equal(t, others, l.podUIDs(t, "dhcp", "proxy"), "another component's pod was replaced")
	l.progress.Say("an image that the Infra names runs, and replaced one pod")
}

// settled waits until the operator has done all that it had to: components follow one
// another, and a change of its own comes through last.
func (l *lab) settled(t *testing.T, vm *node.VM, leaseTime time.Duration) {
	t.Helper()
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
	l.setLeaseTime(t, vm, leaseTime)
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
	l.whole(t)
}

// runs waits until a component's only pod is Ready with that image.
func (l *lab) runs(t *testing.T, component, image string) {
	t.Helper()
	want := image + " True"
	require.NoError(t, node.Wait(t.Context(), patience, component+" to run "+image, func(ctx context.Context) error {
		out, err := l.Kubectl(ctx, "get", "pods", "-n", "clusters", "-l", "app.kubernetes.io/component="+component, "-o",
			`jsonpath={range .items[*]}{.spec.containers[0].image} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if err == nil && strings.TrimSpace(out) != want {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	}))
}

// podUIDs tells pods from their successors.
func (l *lab) podUIDs(t *testing.T, components ...string) string {
	t.Helper()
	out, err := l.Kubectl(t.Context(), "get", "pods", "-n", "clusters", "-l", "app.kubernetes.io/component in ("+strings.Join(components, ",")+")",
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)
	require.NoError(t, err)
	require.Len(t, strings.Fields(out), 2*len(components), out)
	return out
}
