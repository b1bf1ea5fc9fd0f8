package agent_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/agent"
)

var hubNames = []string{"oooi-hub.oooi-system.svc", "oooi-hub"}

// trusted says whether an agent that knows the bundle trusts the hub.
func trusted(t *testing.T, bundle []byte, a agent.Authority, now time.Time) bool {
	t.Helper()
	pair, err := a.Certificate()
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(bundle))
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: hubNames[0], CurrentTime: now})
	return err == nil
}

// behaviour B12: an agent that has the bundle of ten minutes ago trusts the hub
// at any time, through two rotations of the CA.
func TestAnAgentTrustsTheHubThroughRotations(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := agent.LoadAuthority(nil)
	changed, err := a.Rotate(now, hubNames)
	require.NoError(t, err)
	require.True(t, changed)
	bundle := a.Bundle()
	bundles := map[string]bool{}
	const step = 9 * time.Minute
	for range int(800) {
		for _, d := range []time.Duration{step, 24*time.Hour - step} {
			now = now.Add(d)
			before := a.Bundle()
			_, err := a.Rotate(now, hubNames)
			require.NoError(t, err)
			require.True(t, trusted(t, bundle, a, now), "at %s an agent with the bundle from before must trust the hub", now)
			require.True(t, trusted(t, a.Bundle(), a, now))
			bundles[string(a.Bundle())] = true
			bundle = before
		}
	}
	require.Greater(t, len(bundles), 4, "the CA must have been rotated")
	require.LessOrEqual(t, countCerts(a.Bundle()), 3)
}

func countCerts(bundle []byte) int {
	n := 0
	pool := string(bundle)
	for i := 0; i+27 <= len(pool); i++ {
		if pool[i:i+27] == "-----BEGIN CERTIFICATE-----" {
			n++
		}
	}
	return n
}

func TestRotateRepairsASecretThatSomebodyHasChanged(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		damage func(map[string][]byte)
	}{
		{"the key of the CA is gone", func(d map[string][]byte) { delete(d, "ca.key") }},
		{"the CA is rubbish", func(d map[string][]byte) { d["ca.crt"] = []byte("x") }},
		{"the serving key belongs to another certificate", func(d map[string][]byte) { d["tls.key"] = d["ca.key"] }},
		{"the serving certificate is gone", func(d map[string][]byte) { delete(d, "tls.crt") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := agent.LoadAuthority(nil)
			_, err := a.Rotate(now, hubNames)
			require.NoError(t, err)
			quiet, err := a.Rotate(now.Add(time.Hour), hubNames)
			require.NoError(t, err)
			require.False(t, quiet, "nothing to do an hour later")
			c.damage(a.Data())
			changed, err := a.Rotate(now.Add(2*time.Hour), hubNames)
			require.NoError(t, err)
			require.True(t, changed)
			require.True(t, trusted(t, a.Bundle(), a, now.Add(2*time.Hour)))
		})
	}
	a := agent.LoadAuthority(nil)
	_, err := a.Rotate(now, hubNames)
	require.NoError(t, err)
	changed, err := a.Rotate(now, append(hubNames, "another.example.com"))
	require.NoError(t, err)
	require.True(t, changed, "a name that the certificate does not cover asks for another")
}
