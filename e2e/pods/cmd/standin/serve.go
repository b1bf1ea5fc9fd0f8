package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// serve runs one listener a spec until one fails.
func serve(ctx context.Context, specs []string) error {
	var group errgroup.Group
	for _, spec := range specs {
		parts := strings.SplitN(spec, ":", 3)
		if len(parts) < 2 {
			return fmt.Errorf("reading %q: want KIND:PORT:NAME", spec)
		}
		addr, name := ":"+parts[1], strings.Join(parts[2:], "")
		switch parts[0] {
		case "tls":
			group.Go(func() error { return serveTLS(addr, name) })
		case "http":
			group.Go(func() error { return http.ListenAndServe(addr, answer(name)) })
		case "udp":
			group.Go(func() error { return sink(ctx, addr) })
		default:
			return fmt.Errorf("reading %q: unknown kind", spec)
		}
	}
	return group.Wait()
}

// answer says who it is, who asked and for what.
func answer(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s host=%s from=%s\n", name, r.Host, r.RemoteAddr)
	})
}

func serveTLS(addr, name string) error {
	certificate, err := selfSigned(name)
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: addr, Handler: answer(name), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	return server.ListenAndServeTLS("", "")
}

func selfSigned(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// sink logs every datagram that arrives.
func sink(ctx context.Context, addr string) error {
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp4", addr)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	buf := make([]byte, 2048)
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err == nil {
			slog.Info("datagram", "from", from.String(), "text", string(buf[:n]))
		}
	}
}
