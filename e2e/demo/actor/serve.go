package actor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// Servers is the part of serve: one process for all servers of a host.
type Servers struct {
	Servers []Server
}

// Server is one listening address and who answers there.
type Server struct {
	Address string
	// Certificate and Key are PEM; without them the server speaks plain HTTP.
	Certificate string
	Key         string
	Cluster     string
	Service     string
}

// Answer is what a server says about itself and about the request.
type Answer struct {
	Cluster string
	Service string
	// ServerName is the SNI that arrived.
	ServerName string
	// Host is the Host header that arrived.
	Host string
}

func serve(ctx context.Context, part Servers) error {
	ended := make(chan error, len(part.Servers))
	for _, s := range part.Servers {
		listener, err := s.listen(ctx)
		if err != nil {
			return fmt.Errorf("serving %s of %s: %w", s.Service, s.Cluster, err)
		}
		server := &http.Server{
			Handler:           s,
			ReadHeaderTimeout: 10 * time.Second,
			// Handshakes that are broken off are part of the demo.
			ErrorLog: log.New(io.Discard, "", 0),
		}
		go func() { ended <- server.Serve(listener) }()
	}
	return <-ended
}

func (s Server) listen(ctx context.Context) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", s.Address)
	if err != nil || s.Certificate == "" {
		return listener, err
	}
	pair, err := tls.X509KeyPair([]byte(s.Certificate), []byte(s.Key))
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return tls.NewListener(listener, &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
	}), nil
}

// ServeHTTP says who answers.
func (s Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := Answer{Cluster: s.Cluster, Service: s.Service, Host: r.Host}
	if r.TLS != nil {
		answer.ServerName = r.TLS.ServerName
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Print(err)
	}
}
