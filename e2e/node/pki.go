package node

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority is a certificate authority that keeps what it signs in a
// directory: NAME.crt, NAME.key and, for clients, NAME.kubeconfig.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewAuthority makes an authority and its directory.
func NewAuthority(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the authority's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the authority back: %w", err)
	}
	a := &Authority{dir: dir, cert: cert, key: key, pem: pemOf("CERTIFICATE", der)}
	if err := a.write("ca.crt", a.pem); err != nil {
		return nil, err
	}
	return a, a.writeKey("ca.key", key)
}

// Path is the path of one of the authority's files.
func (a *Authority) Path(name string) string { return filepath.Join(a.dir, name) }

// Sign makes NAME.crt and NAME.key for a server and client. Each of hosts is
// an address or a DNS name.
func (a *Authority) Sign(name string, subject pkix.Name, hosts ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("making the serial of %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if addr := net.ParseIP(host); addr != nil {
			template.IPAddresses = append(template.IPAddresses, addr)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("signing %s: %w", name, err)
	}
	if err := a.write(name+".crt", pemOf("CERTIFICATE", der)); err != nil {
		return err
	}
	return a.writeKey(name+".key", key)
}

// Kubeconfig writes NAME.kubeconfig for a client that was signed before.
func (a *Authority) Kubeconfig(name, server string) error {
	crt, err := os.ReadFile(a.Path(name + ".crt"))
	if err != nil {
		return fmt.Errorf("reading the certificate of %s: %w", name, err)
	}
	key, err := os.ReadFile(a.Path(name + ".key"))
	if err != nil {
		return fmt.Errorf("reading the key of %s: %w", name, err)
	}
	b64 := base64.StdEncoding.EncodeToString
	return a.write(name+".kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, server, b64(a.pem), b64(crt), b64(key)))
}

// ServiceAccountKeys makes the pair that signs service account tokens.
func (a *Authority) ServiceAccountKeys() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the service account key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the service account key: %w", err)
	}
	if err := a.write("sa.pub", pemOf("PUBLIC KEY", public)); err != nil {
		return err
	}
	return a.writeKey("sa.key", key)
}

func (a *Authority) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	return a.write(name, pemOf("EC PRIVATE KEY", der))
}

func (a *Authority) write(name string, content []byte) error {
	if err := os.WriteFile(a.Path(name), content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

func pemOf(kind string, der []byte) []byte {
	var out bytes.Buffer
	// Writing to a buffer cannot fail.
	_ = pem.Encode(&out, &pem.Block{Type: kind, Bytes: der})
	return out.Bytes()
}
