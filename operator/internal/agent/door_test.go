package agent

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// behaviour B12: whoever holds no token of his own cannot use up the reviews of
// those who do.
func TestEachAddressHasSoManyTokensReviewed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	d := door{now: func() time.Time { return now }}
	for range reviewsBurst {
		require.True(t, d.open("198.51.100.1"))
	}
	require.False(t, d.open("198.51.100.1"), "one more")
	require.True(t, d.open("198.51.100.2"), "another address")
	now = now.Add(reviewEvery)
	require.True(t, d.open("198.51.100.1"), "a second later")
	require.False(t, d.open("198.51.100.1"), "and again")
	now = now.Add(forgetAfter)
	require.True(t, d.open("198.51.100.3"))
	require.Len(t, d.limiters, 1, "addresses are forgotten")
}

func TestATokenClaimsAUser(t *testing.T) {
	t.Parallel()
	payload := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, c := range []struct{ name, token, want string }{
		{"a token of a ServiceAccount", "e30." + payload(`{"aud":["oooi-hub"],"sub":"system:serviceaccount:ns:a-dns"}`) + ".c2ln", "system:serviceaccount:ns:a-dns"},
		{"no subject", "e30." + payload(`{"aud":["oooi-hub"]}`) + ".c2ln", ""},
		{"a subject that is a number", "e30." + payload(`{"sub":7}`) + ".c2ln", ""},
		{"two parts", "e30." + payload(`{"sub":"a"}`), ""},
		{"not JSON", "e30." + payload("sub") + ".c2ln", ""},
		{"not base64url", "e30.***.c2ln", ""},
		{"a word", "abc", ""},
	} {
		require.Equal(t, c.want, claimed(c.token), c.name)
	}
}
