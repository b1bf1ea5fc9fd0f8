package hosted

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func kubeconfig(t *testing.T, change func(*clientcmdapi.Config)) []byte {
	t.Helper()
	c := clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "https://kube-apiserver:6443", CertificateAuthorityData: []byte("ca")}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			ClientCertificateData: []byte("cert"), ClientKeyData: []byte("key"), Token: "token",
		}},
	}
	change(&c)
	raw, err := clientcmd.Write(c)
	require.NoError(t, err)
	return raw
}

// behaviour G7: inline credentials are taken, and nothing else of the file.
func TestParseTakesInlineCredentials(t *testing.T) {
	config, err := parse(kubeconfig(t, func(*clientcmdapi.Config) {}))
	require.NoError(t, err)
	require.Equal(t, "token", config.BearerToken)
	require.Equal(t, []byte("ca"), config.CAData)
	require.Equal(t, []byte("cert"), config.CertData)
	require.Equal(t, []byte("key"), config.KeyData)
	require.Empty(t, config.Host, "the server's address is never the file's")
}

// behaviour G7: a kubeconfig that would make the operator run a program, read a
// file, follow a proxy, trust anybody or act as somebody else is refused by the
// name of its field, and the error carries nothing of its content.
func TestParseRefuses(t *testing.T) {
	user := func(change func(*clientcmdapi.AuthInfo)) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) { change(c.AuthInfos["u"]) }
	}
	cluster := func(change func(*clientcmdapi.Cluster)) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) { change(c.Clusters["c"]) }
	}
	for _, tc := range []struct {
		name, field string
		change      func(*clientcmdapi.Config)
	}{
		{name: "a plugin to run", field: "exec", change: user(func(u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{Command: "/bin/secret", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
		})},
		{name: "an authentication plugin", field: "auth-provider", change: user(func(u *clientcmdapi.AuthInfo) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "secret"}
		})},
		{name: "a proxy", field: "proxy-url", change: cluster(func(c *clientcmdapi.Cluster) { c.ProxyURL = "http://secret:3128" })},
		{name: "no verification", field: "insecure-skip-tls-verify", change: cluster(func(c *clientcmdapi.Cluster) { c.InsecureSkipTLSVerify = true })},
		{name: "another server name", field: "tls-server-name", change: cluster(func(c *clientcmdapi.Cluster) { c.TLSServerName = "secret" })},
		{name: "an authority's file", field: "certificate-authority", change: cluster(func(c *clientcmdapi.Cluster) { c.CertificateAuthority = "/secret" })},
		{name: "a certificate's file", field: "client-certificate", change: user(func(u *clientcmdapi.AuthInfo) { u.ClientCertificate = "/secret" })},
		{name: "a key's file", field: "client-key", change: user(func(u *clientcmdapi.AuthInfo) { u.ClientKey = "/secret" })},
		{name: "a token's file", field: "tokenFile", change: user(func(u *clientcmdapi.AuthInfo) { u.TokenFile = "/secret" })},
		{name: "a password", field: "username", change: user(func(u *clientcmdapi.AuthInfo) { u.Username, u.Password = "secret", "secret" })},
		{name: "impersonation", field: "as", change: user(func(u *clientcmdapi.AuthInfo) { u.Impersonate = "secret" })},
		{name: "no authority", field: "certificate-authority-data", change: cluster(func(c *clientcmdapi.Cluster) { c.CertificateAuthorityData = nil })},
		{name: "a context that is not there", field: "current-context", change: func(c *clientcmdapi.Config) { c.CurrentContext = "secret" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(kubeconfig(t, tc.change))
			require.ErrorContains(t, err, tc.field)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	_, err := parse([]byte("\x00 no yaml"))
	require.ErrorContains(t, err, "no kubeconfig")
}
