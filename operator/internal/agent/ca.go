package agent

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Lifetimes. A new CA is published beside the old one before it signs, so that
// every agent trusts it by then; the old one stays published until the last
// certificate that it signed is over.
const (
	caLifetime      = 365 * 24 * time.Hour
	caRenewBefore   = 60 * 24 * time.Hour
	certLifetime    = 7 * 24 * time.Hour
	certRenewBefore = 3 * 24 * time.Hour
	publishedBefore = 10 * time.Minute
	clockSkew       = 5 * time.Minute
)

// The keys of the Secret that holds an Authority.
const (
	secretCurrentCert = "ca.crt"
	secretCurrentKey  = "ca.key"
	secretNextCert    = "next-ca.crt"
	secretNextKey     = "next-ca.key"
	secretNextSince   = "next-ca.since"
	secretOldCert     = "old-ca.crt"
	secretOldUntil    = "old-ca.until"
	secretServingCert = "tls.crt"
	secretServingKey  = "tls.key"
)

// Authority is the hub's own certificate authority and serving certificate, as
// they lie in a Secret.
type Authority struct{ data map[string][]byte }

// LoadAuthority takes an Authority out of a Secret's data.
func LoadAuthority(data map[string][]byte) Authority {
	copied := map[string][]byte{}
	for k, v := range data {
		copied[k] = bytes.Clone(v)
	}
	return Authority{data: copied}
}

// Data is what the Secret holds.
func (a Authority) Data() map[string][]byte { return a.data }

// Bundle is every CA that an agent has to trust, in PEM.
func (a Authority) Bundle() []byte {
	var out []byte
	for _, k := range []string{secretOldCert, secretCurrentCert, secretNextCert} {
		out = append(out, a.data[k]...)
	}
	return out
}

// Certificate is the serving certificate.
func (a Authority) Certificate() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(a.data[secretServingCert], a.data[secretServingKey])
	if err != nil {
		return nil, fmt.Errorf("reading the hub's certificate: %w", err)
	}
	return &pair, nil
}

// Rotate brings the authority to where it should be at that time, one step of
// its life at a time, and says whether something changed.
func (a Authority) Rotate(now time.Time, names []string) (bool, error) {
	changed := false
	ca, err := a.cert(secretCurrentCert)
	if err != nil || now.After(ca.NotAfter) || a.key(secretCurrentKey) == nil {
		if err := a.begin(now); err != nil {
			return false, err
		}
		changed = true
	}
	for _, step := range []func(time.Time, []string) (bool, error){a.announce, a.promote, a.serve, a.retire} {
		did, err := step(now, names)
		if err != nil {
			return false, err
		}
		changed = changed || did
	}
	return changed, nil
}

// begin starts anew: there is no CA, or none that can still sign.
func (a Authority) begin(now time.Time) error {
	cert, key, err := newCA(now)
	if err != nil {
		return err
	}
	clear(a.data)
	a.data[secretCurrentCert], a.data[secretCurrentKey] = cert, key
	return nil
}

// announce publishes a new CA some time before the current one ends.
func (a Authority) announce(now time.Time, _ []string) (bool, error) {
	current, err := a.cert(secretCurrentCert)
	if err != nil {
		return false, err
	}
	if len(a.data[secretNextCert]) > 0 || now.Before(current.NotAfter.Add(-caRenewBefore)) {
		return false, nil
	}
	cert, key, err := newCA(now)
	if err != nil {
		return false, err
	}
	a.data[secretNextCert], a.data[secretNextKey] = cert, key
	a.data[secretNextSince] = []byte(now.UTC().Format(time.RFC3339))
	return true, nil
}

// promote lets a CA sign that has been published for long enough.
func (a Authority) promote(now time.Time, _ []string) (bool, error) {
	if len(a.data[secretNextCert]) == 0 {
		return false, nil
	}
	since, err := time.Parse(time.RFC3339, string(a.data[secretNextSince]))
	if err == nil && now.Before(since.Add(publishedBefore)) {
		return false, nil
	}
	a.data[secretOldCert] = a.data[secretCurrentCert]
	a.data[secretOldUntil] = []byte(now.Add(certLifetime).UTC().Format(time.RFC3339))
	a.data[secretCurrentCert], a.data[secretCurrentKey] = a.data[secretNextCert], a.data[secretNextKey]
	for _, k := range []string{secretNextCert, secretNextKey, secretNextSince} {
		delete(a.data, k)
	}
	return true, nil
}

// serve signs a serving certificate where there is none that will do. One that
// an old CA signed serves on until its own end comes near.
func (a Authority) serve(now time.Time, names []string) (bool, error) {
	serving, err := a.cert(secretServingCert)
	if err == nil && now.Before(serving.NotAfter.Add(-certRenewBefore)) && covers(serving, names) && a.trusted(serving, now) {
		if _, err := a.Certificate(); err == nil {
			return false, nil
		}
	}
	ca, err := a.cert(secretCurrentCert)
	if err != nil {
		return false, err
	}
	cert, key, err := newServing(now, ca, a.key(secretCurrentKey), names)
	if err != nil {
		return false, err
	}
	a.data[secretServingCert], a.data[secretServingKey] = cert, key
	return true, nil
}

// retire drops the old CA when the last certificate that it can have signed is
// over: another replica may serve with it until then.
func (a Authority) retire(now time.Time, _ []string) (bool, error) {
	if len(a.data[secretOldCert]) == 0 {
		return false, nil
	}
	until, err := time.Parse(time.RFC3339, string(a.data[secretOldUntil]))
	if err == nil && now.Before(until) {
		return false, nil
	}
	delete(a.data, secretOldCert)
	delete(a.data, secretOldUntil)
	return true, nil
}

func (a Authority) trusted(serving *x509.Certificate, now time.Time) bool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Bundle())
	_, err := serving.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now})
	return err == nil
}

func (a Authority) cert(name string) (*x509.Certificate, error) {
	block, _ := pem.Decode(a.data[name])
	if block == nil {
		return nil, fmt.Errorf("reading %s: no PEM", name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return cert, nil
}

func (a Authority) key(name string) crypto.Signer {
	block, _ := pem.Decode(a.data[name])
	if block == nil {
		return nil
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	return key
}

func covers(cert *x509.Certificate, names []string) bool {
	for _, n := range names {
		if cert.VerifyHostname(n) != nil {
			return false
		}
	}
	return true
}

func newCA(now time.Time) (cert, key []byte, err error) {
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "oooi-hub-ca"},
		NotAfter: now.Add(caLifetime), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return sign(now, template, nil, nil)
}

func newServing(now time.Time, ca *x509.Certificate, signer crypto.Signer, names []string) (cert, key []byte, err error) {
	if signer == nil {
		return nil, nil, errors.New("signing the hub's certificate: no key")
	}
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: names[0]},
		DNSNames: names, NotAfter: now.Add(certLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	return sign(now, template, ca, signer)
}

func sign(now time.Time, template, parent *x509.Certificate, signer crypto.Signer) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("making a serial number: %w", err)
	}
	template.NotBefore = now.Add(-clockSkew)
	if parent == nil {
		parent, signer = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}
