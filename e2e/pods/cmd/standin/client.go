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
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// The time for a connection, of which the second packet goes out after one second
// and the third after three, and for what is said on it.
const (
	connectTimeout = 5 * time.Second
	answerTimeout  = 10 * time.Second
)

// errConnected marks what went wrong after a connection was made.
var errConnected = errors.New("connected")

// dial shakes hands with a TLS server. Whose certificate it shows is for the
// caller to look at.
func dial(ctx context.Context, addr, sni string) (*tls.Conn, error) {
	dialer := &net.Dialer{Timeout: connectTimeout}
	conn, err := dialer.DialContext(ctx, "tcp4", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	client := tls.Client(conn, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
	if err = conn.SetDeadline(time.Now().Add(answerTimeout)); err == nil {
		err = client.HandshakeContext(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w, shaking hands: %w", errConnected, err), conn.Close())
	}
	return client, nil
}

// outcome is the word for a handshake that somebody else kept from happening:
// refused, unreachable or unanswered is a connection that did not come about, closed
// one that the other side ended, mute one on which it said nothing. It is empty for
// any other error.
func outcome(err error) string {
	var timeout net.Error
	late := errors.As(err, &timeout) && timeout.Timeout()
	switch connected := errors.Is(err, errConnected); {
	case connected && late:
		return "mute"
	case connected && ended(err):
		return "closed"
	case connected:
		return ""
	case late:
		return "unanswered"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.EHOSTUNREACH):
		return "unreachable"
	}
	return ""
}

// ended says whether an error is the connection's end by the other side.
func ended(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}, func(end error) bool {
		return errors.Is(err, end)
	})
}

// handshake prints the common name of the certificate that a server shows, or the
// word for how it came to none. Anything else is an error.
func handshake(ctx context.Context, addr, sni string) error {
	conn, err := dial(ctx, addr, sni)
	if word := outcome(err); word != "" {
		fmt.Println(word)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println(conn.ConnectionState().PeerCertificates[0].Subject.CommonName)
	return conn.Close()
}

// hold asks ten times a second over one connection, and once more when its input
// ends. It says "open" after the first answer, and "closed" where the other side
// ends the connection.
func hold(ctx context.Context, addr, sni string) error {
	conn, err := dial(ctx, addr, sni)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	let := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an input that breaks has ended too
		close(let)
	}()
	reader := bufio.NewReader(conn)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	if err := ask(conn, reader); err != nil {
		return err
	}
	fmt.Println("open")
	for {
		select {
		case <-tick.C:
			if err := ask(conn, reader); err != nil {
				if ended(err) {
					fmt.Println("closed")
				}
				return err
			}
		case <-let:
			return ask(conn, reader)
		}
	}
}

func ask(conn *tls.Conn, reader *bufio.Reader) error {
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
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

// knownPorts are those that something of oooi, of Kubernetes or of the tests
// listens on.
func knownPorts() []int {
	known := []int{22, 53, 67, 80, 443, 2379, 5000, 6443, 8080, 8081, 8091, 8181, 8443, 9901, 9999, 10248, 10249, 10250, 10256, 20000, 20249}
	for port := 9000; port < 9100; port++ {
		known = append(known, port)
	}
	return known
}

// scan prints every port that answers, in order. An answer is a connection, or
// for UDP a datagram; refusals count as silence.
func scan(ctx context.Context, network, addr string) error {
	probe, workers := connects, tcpWorkers
	switch network {
	case "tcp":
	case "udp":
		probe, workers = answers, udpWorkers
	default:
		return fmt.Errorf("scanning: %q is neither tcp nor udp", network)
	}
	targets := make([]string, 0, ports)
	for port := 1; port <= ports; port++ {
		targets = append(targets, net.JoinHostPort(addr, strconv.Itoa(port)))
	}
	open, err := probeAll(ctx, targets, workers, probe)
	for _, target := range open {
		fmt.Println(strings.TrimPrefix(target, addr+":"))
	}
	return err
}

// sweep looks at the well-known ports of many addresses.
func sweep(ctx context.Context, addrs []string) error {
	var targets []string
	for _, addr := range addrs {
		for _, port := range knownPorts() {
			targets = append(targets, net.JoinHostPort(addr, strconv.Itoa(port)))
		}
	}
	open, err := probeAll(ctx, targets, tcpWorkers, connects)
	for _, target := range open {
		fmt.Println(target)
	}
	return err
}

// probeAll returns the targets that answer, in the order given.
func probeAll(ctx context.Context, targets []string, workers int, probe func(context.Context, string) (bool, error)) ([]string, error) {
	answered := make([]bool, len(targets))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, target := range targets {
		group.Go(func() (err error) {
			answered[i], err = probe(ctx, target)
			return err
		})
	}
	err := group.Wait()
	var open []string
	for i, target := range targets {
		if answered[i] {
			open = append(open, target)
		}
	}
	return open, err
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
