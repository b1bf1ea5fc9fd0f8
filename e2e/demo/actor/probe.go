package actor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// Probe is the part of probe: one connection as a client makes it.
type Probe struct {
	// Address is "host:port"; a name is looked up through the host's resolver.
	Address string
	// Plain speaks HTTP without TLS.
	Plain bool
	// Raw is sent as it is, without TLS and HTTP; whatever comes back is the answer.
	Raw []byte
	// ServerName is the SNI; empty sends none.
	ServerName string
	// Expect is the name that the server's certificate must carry.
	Expect string
	// Authorities are the PEM certificates that the client trusts.
	Authorities string
	// Host is the Host header.
	Host string
	// Path is asked for; empty is "/".
	Path string
	// Patience is how long the client waits at each stage, in milliseconds. 0 is
	// ten seconds: less than Envoy's limit for a silent client, more than
	// anything here takes.
	Patience int
}

// Outcome is what became of a probe.
type Outcome struct {
	// Stage is where it ended: "lookup", "unanswered" (no word on the connection),
	// "dial" (another fault of it), "closed" (the peer ended it), "silent" (nothing
	// came), "broken" (what came is not what it should be), "certificate", "request"
	// or "answer".
	Stage  string
	Error  string
	Answer Answer
	// Status is the HTTP status of an answer.
	Status int
	// Received is what came back for Raw.
	Received []byte
}

func (p Probe) run(ctx context.Context) Outcome {
	patience := 10 * time.Second
	if p.Patience > 0 {
		patience = time.Duration(p.Patience) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	// Go's own resolver, which reads the host's resolv.conf.
	dialer := &net.Dialer{Timeout: patience, Resolver: &net.Resolver{PreferGo: true}}
	conn, err := dialer.DialContext(ctx, "tcp4", p.Address)
	if err != nil {
		if _, ok := errors.AsType[*net.DNSError](err); ok {
			return failed("lookup", err)
		}
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return failed("unanswered", err)
		}
		return failed("dial", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return failed("dial", err)
	}
	if p.Raw != nil {
		return p.raw(conn)
	}
	if p.Plain {
		return p.request(ctx, conn)
	}
	secure := tls.Client(conn, p.config())
	if err := secure.HandshakeContext(ctx); err != nil {
		return failed(stageOf(err), err)
	}
	return p.request(ctx, secure)
}

// config trusts the given authorities alone. crypto/tls ties the name that is
// verified to the SNI, so a client without SNI verifies for itself.
func (p Probe) config() *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(p.Authorities))
	return &tls.Config{
		ServerName:         p.ServerName,
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection below verifies chain and name
		VerifyConnection: func(state tls.ConnectionState) error {
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
				Roots: roots, Intermediates: between, DNSName: p.Expect,
			})
			return err
		},
	}
}

func (p Probe) request(ctx context.Context, conn net.Conn) Outcome {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Host+"/"+strings.TrimPrefix(p.Path, "/"), nil)
	if err != nil {
		return failed("request", err)
	}
	if err := request.Write(conn); err != nil {
		return failed(stageOf(err), err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return failed(stageOf(err), err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return failed(stageOf(err), err)
	}
	out := Outcome{Stage: "answer", Status: response.StatusCode}
	if response.StatusCode == http.StatusOK && strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(body, &out.Answer); err != nil {
			return failed("request", fmt.Errorf("answer %q: %w", body, err))
		}
	}
	return out
}

func (p Probe) raw(conn net.Conn) Outcome {
	if _, err := conn.Write(p.Raw); err != nil {
		return failed(stageOf(err), err)
	}
	var received bytes.Buffer
	if _, err := io.Copy(&received, conn); err != nil && received.Len() == 0 {
		return failed(stageOf(err), err)
	}
	if received.Len() == 0 {
		return failed("closed", io.EOF)
	}
	return Outcome{Stage: "answer", Received: received.Bytes()}
}

func stageOf(err error) string {
	_, invalid := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	switch {
	case invalid, unknown, name:
		return "certificate"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "silent"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "closed"
	default:
		return "broken"
	}
}

func failed(stage string, err error) Outcome {
	return Outcome{Stage: stage, Error: err.Error()}
}
