package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// hazard 241, on a live API server: the warning follows the hub's Proxy.
func TestTheHubsProxyIsFollowed(t *testing.T) {
	w := build(t, 25, "upsilon")
	env.Operator(t, testenv.DefaultOptions())
	condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	proxy := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(t, proxy)
	t.Cleanup(func() { require.NoError(t, env.Client.Delete(context.WithoutCancel(t.Context()), proxy)) })
	proxy.Status = configv1.ProxyStatus{HTTPSProxy: "http://198.51.100.80:3128", NoProxy: ".svc,10.128.0.0/14"}
	require.NoError(t, env.Client.Status().Update(t.Context(), proxy))
	c := condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonHubProxyLacksVLAN)
	require.Contains(t, c.Message, "add 192.0.25.0/24 to its spec.noProxy")
	proxy.Status.NoProxy += ",192.0.25.0/24"
	require.NoError(t, env.Client.Status().Update(t.Context(), proxy))
	condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
}

// behaviour A7, hazards 3, 260: addresses may move; the status says what running
// workers keep, for a lease time, and the children have the new ones in the order
// in which they lead to each other.
func TestAMovedNetworkSaysWhatWorkersKeep(t *testing.T) {
	w := build(t, 26, "phi")
	merge(t, w.infra, `{"spec":{"infraComponents":{"dhcp":{"leaseTime":"60s"}}}}`)
	o := env.Operator(t, testenv.DefaultOptions())
	env.Kubelet(t, w.namespace)
	env.Agents(t, w.namespace, "vlan")
	condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	settled(t, o)
	merge(t, w.infra, `{"spec":{"infraComponents":{"dns":{"serverIP":"192.0.26.5"},"proxy":{"serverIP":"192.0.26.6"}}}}`)
	c := condition(t, w.infra, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonNetworkChanged)
	require.Contains(t, c.Message, "infraComponents.dns.serverIP moved from 192.0.26.3 to 192.0.26.5")
	require.Contains(t, c.Message, "infraComponents.proxy.serverIP moved from 192.0.26.4 to 192.0.26.6")
	require.Contains(t, c.Message, "running workers keep what they had until they renew, at most 1m0s")
	dhcp, dns, proxy := childrenOf(w)
	require.Equal(t, []v1alpha1.IPv4{"192.0.26.5"}, get(t, dhcp).Spec.NetworkConfig.DNSServers)
	require.Equal(t, v1alpha1.IPv4("192.0.26.5"), get(t, dns).Spec.NetworkConfig.ServerIP)
	require.Equal(t, v1alpha1.IPv4("192.0.26.6"), get(t, proxy).Spec.NetworkConfig.ServerIP)
	var order []string
	for _, write := range o.Writes.Taken() {
		for _, kind := range []string{"proxyservers/vlan-proxy", "dnsservers/vlan-dns", "dhcpservers/vlan-dhcp"} {
			if strings.HasSuffix(write, kind) {
				order = append(order, kind)
			}
		}
	}
	require.Equal(t, []string{"proxyservers/vlan-proxy", "dnsservers/vlan-dns", "dhcpservers/vlan-dhcp"}, order)
	condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	testenv.Eventually(t, 2*patience, func() error {
		c := condition(t, w.infra, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		if c.Message != "" {
			return fmt.Errorf("the message is %q", c.Message)
		}
		return nil
	})
}
