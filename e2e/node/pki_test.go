package node

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnAuthoritySignsForAddressesAndNames(t *testing.T) {
	a, err := NewAuthority(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, a.Sign("server", pkix.Name{CommonName: "server"}, "192.0.2.4", "api.example.com"))
	pair, err := tls.LoadX509KeyPair(a.Path("server.crt"), a.Path("server.key"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(a.Path("ca.crt"))
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(ca))
	for _, host := range []string{"192.0.2.4", "api.example.com"} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
		require.NoError(t, err, host)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "oauth.example.com"})
	require.Error(t, err)
}

func TestAKubeconfigIsForWhoWasSigned(t *testing.T) {
	a, err := NewAuthority(t.TempDir())
	require.NoError(t, err)
	require.Error(t, a.Kubeconfig("nobody", "https://192.0.2.4:6443"))
	require.NoError(t, a.Sign("somebody", pkix.Name{CommonName: "somebody"}))
	require.NoError(t, a.Kubeconfig("somebody", "https://192.0.2.4:6443"))
}

func TestTheStateDirectoryMustBeVisibleFromTheBoxes(t *testing.T) {
	for _, dir := range []string{"/var/tmp/x", "/run/x", "/etc", "/opt/x"} {
		require.Error(t, check(t.Context(), Options{Dir: dir}), dir)
	}
}
