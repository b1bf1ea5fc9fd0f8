package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// dial shakes hands with a TLS server. Whose certificate it shows is for the
// caller to look at.
func dial(ctx context.Context, addr, sni string) (*tls.Conn, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp4", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	client := tls.Client(conn, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
	if err = conn.SetDeadline(time.Now().Add(5 * time.Second)); err == nil {
		err = client.HandshakeContext(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shaking hands: %w", err), conn.Close())
	}
	return client, nil
}

// handshake prints the common name of the certificate that a server shows.
func handshake(ctx context.Context, addr, sni string) error {
	conn, err := dial(ctx, addr, sni)
	if err != nil {
		return err
	}
	fmt.Println(conn.ConnectionState().PeerCertificates[0].Subject.CommonName)
	return conn.Close()
}

// hold asks ten times a second over one connection.
func hold(ctx context.Context, addr, sni, seconds string) error {
	limit, err := strconv.Atoi(seconds)
	if err != nil {
		return fmt.Errorf("reading the seconds: %w", err)
	}
	conn, err := dial(ctx, addr, sni)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range limit * 10 {
		<-tick.C
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return fmt.Errorf("setting a deadline: %w", err)
		}
		if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: held\r\n\r\n"); err != nil {
			return fmt.Errorf("asking: %w", err)
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
	}
	fmt.Println("held")
	return nil
}

// What a silent port costs is a time-out; a closed one answers at once. A
// loaded machine is slow to answer, so TCP waits longer.
const (
	ports      = 65535
	tcpWorkers = 1500
	tcpTimeout = time.Second
	udpWorkers = 4000
	udpTimeout = 250 * time.Millisecond
)

// scan prints every port that answers, in order. An answer is a connection, or
// for UDP a datagram; refusals count as silence. "known" scans only the ports
// that something of oooi or Kubernetes listens on, by TCP.
func scan(ctx context.Context, network, addr string) error {
	probe, workers := connects, tcpWorkers
	var all []int
	switch network {
	case "udp":
		probe, workers = answers, udpWorkers
		fallthrough
	case "tcp":
		for port := 1; port <= ports; port++ {
			all = append(all, port)
		}
	case "known":
		all = []int{53, 67, 80, 443, 2379, 6443, 8080, 8081, 8443, 9901, 10250, 10256, 20000, 20249}
		for port := 9000; port < 9100; port++ {
			all = append(all, port)
		}
	default:
		return fmt.Errorf("scanning: %q is none of tcp, udp, known", network)
	}
	var (
		mu    sync.Mutex // guards found
		found []int
		group errgroup.Group
	)
	group.SetLimit(workers)
	for _, port := range all {
		group.Go(func() error {
			open, err := probe(ctx, net.JoinHostPort(addr, strconv.Itoa(port)))
			if open {
				mu.Lock()
				found = append(found, port)
				mu.Unlock()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	slices.Sort(found)
	for _, port := range found {
		fmt.Println(port)
	}
	return nil
}

func connects(ctx context.Context, target string) (bool, error) {
	conn, err := (&net.Dialer{Timeout: tcpTimeout}).DialContext(ctx, "tcp4", target)
	if err != nil {
		return false, localFault(err)
	}
	return true, conn.Close()
}

// answers sends a DNS question (RFC 1035 section 4.1), which is something to
// read for any server that reads at all.
func answers(ctx context.Context, target string) (bool, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp4", target)
	if err != nil {
		return false, localFault(err)
	}
	defer func() { _ = conn.Close() }()
	question := binary.BigEndian.AppendUint16(nil, 4711)
	question = append(question, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 1, 0, 1)
	if _, err := conn.Write(question); err != nil {
		return false, localFault(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(udpTimeout)); err != nil {
		return false, fmt.Errorf("setting a deadline: %w", err)
	}
	_, err = conn.Read(make([]byte, 512))
	return err == nil, nil
}

// localFault keeps a scan from passing because it could not be made.
func localFault(err error) error {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENETUNREACH, syscall.EADDRNOTAVAIL, syscall.ENOBUFS} {
		if errors.Is(err, errno) {
			return fmt.Errorf("scanning: %w", err)
		}
	}
	return nil
}

func send(ctx context.Context, addr, text string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "udp4", addr)
	if err != nil {
		return fmt.Errorf("dialling: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(text)); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	return nil
}
