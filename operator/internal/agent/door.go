package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"
)

// A review costs the API server a call, and anybody who reaches the hub can ask for
// one. An agent asks once for a stream, and then again after a second and more.
const (
	reviewsBurst = 64
	reviewEvery  = time.Second
	// forgetAfter is when addresses are forgotten, their attempts with them.
	forgetAfter = time.Minute
)

// door lets each address have so many tokens reviewed.
type door struct {
	now func() time.Time

	mu       sync.Mutex
	limiters map[string]*rate.Limiter // by address; guarded by mu
	began    time.Time                // guarded by mu
}

// open says whether one more token from an address is looked at.
func (d *door) open(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if d.limiters == nil || now.Sub(d.began) >= forgetAfter {
		d.limiters, d.began = map[string]*rate.Limiter{}, now
	}
	l := d.limiters[address]
	if l == nil {
		l = rate.NewLimiter(rate.Every(reviewEvery), reviewsBurst)
		d.limiters[address] = l
	}
	return l.AllowN(now, 1)
}

// addressOf is the IP address that a call comes from.
func addressOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	return host
}

// claimed is the user that a token says it is for (sub, RFC 7519 section 4.1.2),
// whoever signed it; "" for what is no JSON Web Token.
func claimed(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Subject
}
