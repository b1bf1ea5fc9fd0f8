package hosted

import (
	"fmt"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// parse takes the credentials out of a kubeconfig, or says which field of it
// is refused. Nothing of the content goes into the error.
func parse(raw []byte) (*rest.Config, error) {
	config, err := clientcmd.Load(raw)
	if err != nil {
		return nil, fmt.Errorf("it is no kubeconfig")
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok && config.CurrentContext == "" && len(config.Contexts) == 1 {
		for _, only := range config.Contexts {
			context, ok = only, true
		}
	}
	if !ok {
		return nil, fmt.Errorf("current-context names no context")
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if cluster == nil || user == nil {
		return nil, fmt.Errorf("the context names no cluster or no user")
	}
	if field := refused(cluster, user); field != "" {
		return nil, fmt.Errorf("%s is not accepted", field)
	}
	if len(cluster.CertificateAuthorityData) == 0 {
		return nil, fmt.Errorf("certificate-authority-data is missing")
	}
	return &rest.Config{
		BearerToken: user.Token,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: cluster.CertificateAuthorityData, CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
		},
	}, nil
}

// refused names the first field that would make us run, read, trust or reach
// something that the kubeconfig's author chose.
func refused(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) string {
	fields := []struct {
		name string
		set  bool
	}{
		{"exec", user.Exec != nil},
		{"auth-provider", user.AuthProvider != nil},
		{"proxy-url", cluster.ProxyURL != ""},
		{"insecure-skip-tls-verify", cluster.InsecureSkipTLSVerify},
		{"tls-server-name", cluster.TLSServerName != ""},
		{"certificate-authority (a file)", cluster.CertificateAuthority != ""},
		{"client-certificate (a file)", user.ClientCertificate != ""},
		{"client-key (a file)", user.ClientKey != ""},
		{"tokenFile", user.TokenFile != ""},
		{"username", user.Username != "" || user.Password != ""},
		{"as", user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0},
	}
	if i := slices.IndexFunc(fields, func(f struct {
		name string
		set  bool
	},
	) bool {
		return f.set
	}); i >= 0 {
		return fields[i].name
	}
	return ""
}
