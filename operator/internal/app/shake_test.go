package app_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// hanging are API servers that shake hands and answer no request.
type hanging struct {
	net.Listener
	asked atomic.Int64
}

func newHanging(t *testing.T, cert tls.Certificate) *hanging {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := &hanging{Listener: tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})}
	t.Cleanup(func() { _ = h.Close() })
	go func() {
		for {
			c, err := h.Accept()
			if err != nil {
				return
			}
			go func() {
				if n, _ := io.Copy(io.Discard, c); n > 0 {
					h.asked.Add(1)
				}
				_ = c.Close()
			}()
		}
	}()
	return h
}

// tenantWithApps makes n attachments of one Infra that want an apps ingress.
func tenantWithApps(t *testing.T, namespace string, third, n int, secrets *tenants) {
	t.Helper()
	env.Must(t, testenv.NamespaceObject(namespace), testenv.NAD(namespace, "vlan"))
	t.Cleanup(func() { env.Sweep(t, namespace) })
	infra := testenv.Infra(namespace, "vlan", "vlan", third)
	dhcp := &infra.Spec.InfraComponents.DHCP
	dhcp.RangeStart, dhcp.RangeEnd = v1alpha1.IPv4(fmt.Sprintf("192.0.%d.5", third)), v1alpha1.IPv4(fmt.Sprintf("192.0.%d.20", third))
	env.Must(t, infra)
	for i := range n {
		h := testenv.Hosted{Namespace: namespace, Name: fmt.Sprintf("h%d", i)}
		env.Must(t, h.Objects()...)
		env.Must(t, secrets.secret(t, h.ControlPlane()))
		a := testenv.Attachment(namespace, h.Name, "vlan")
		a.Spec.AppsIngress.Enabled = true
		a.Spec.AppsIngress.MetalLB = v1alpha1.AppsMetalLB{
			AddressPoolName: v1alpha1.ObjectName(h.Name), IPAddressPoolRange: v1alpha1.IPv4Range(fmt.Sprintf("192.0.%d.%d-192.0.%d.%d", third, 30+i, third, 30+i)),
		}
		env.Must(t, a)
	}
}

// appsReason waits until the apps ingress of an attachment says that.
func appsReason(t *testing.T, within time.Duration, a *v1alpha1.InfraClusterAttachment, reason, message string) {
	t.Helper()
	testenv.Eventually(t, within, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		if st := a.Status.AppsIngressStatus; st == nil || st.Reason != reason || !strings.Contains(st.Message, message) {
			return fmt.Errorf("the apps ingress is %+v", st)
		}
		return nil
	})
}

// hazard 214, behaviours F1, G6: one tenant's clusters that shake hands and then say
// nothing hold up nobody, however many they are.
func TestClustersThatShakeHandsAndHangHoldUpNobody(t *testing.T) {
	require.NoError(t, env.Install(t.Context(), testenv.All()...))
	const many, evil, good = 60, "hang48", "good48"
	var controlPlanes []string
	for i := range many {
		controlPlanes = append(controlPlanes, fmt.Sprintf("%s-h%d", evil, i))
	}
	cert, ca := selfSigned(t, controlPlanes)
	hang, answering := newHanging(t, cert), newTenants(t, env, good+"-h0")
	opts := testenv.DefaultOptions()
	opts.DialHosted = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.Contains(address, "."+evil+"-") {
			return (&net.Dialer{}).DialContext(ctx, network, hang.Addr().String())
		}
		return answering.dial(ctx, network, address)
	}
	env.Operator(t, opts)
	w := build(t, 48, "victim")
	ready(t, w)
	tenantWithApps(t, evil, 148, many, &tenants{ca: ca})
	testenv.Eventually(t, 2*patience, func() error {
		if n := hang.asked.Load(); n < many/2 {
			return fmt.Errorf("%d requests have been let wait", n)
		}
		return nil
	})

	for range 3 {
		h := w.clusters[0]
		require.NoError(t, env.Client.Delete(t.Context(), get(t, h.Service("kube-apiserver", 6443))))
		again := h.Service("kube-apiserver", 6443)
		require.NoError(t, env.Client.Create(t.Context(), again))
		made := time.Now()
		backend(t, w, "the API's new address", leadsTo("victim/api", v1alpha1.ListedIPv4(again.Spec.ClusterIP)))
		t.Logf("an API server's Service that is made anew is followed after %s", time.Since(made))
		require.Less(t, time.Since(made), 10*time.Second)
	}

	tenantWithApps(t, good, 149, 1, answering)
	a := testenv.Attachment(good, "h0", "vlan")
	appsReason(t, 30*time.Second, a, v1alpha1.ReasonWaitingForHostedClusterNodes, "no worker of the hosted cluster is Ready")
	worker(t)
	appsReason(t, 30*time.Second, a, v1alpha1.ReasonCatalogSourceMissing, "")

	var list v1alpha1.InfraClusterAttachmentList
	require.NoError(t, env.Client.List(t.Context(), &list, client.InNamespace(evil)))
	seen := map[string]int{}
	for _, a := range list.Items {
		if st := a.Status.AppsIngressStatus; st != nil {
			seen[st.Reason+": "+st.Message]++
		}
	}
	t.Logf("what is said of those that hang: %v", seen)
}
