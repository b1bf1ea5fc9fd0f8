// Command attacker is a client that means no good. Bytes go out as they are, and
// what comes back is printed in hex.
//
//	attacker send udp|tcp ADDRESS       one message from stdin
//	attacker hold ADDRESS COUNT         keeps COUNT connections open, each with half a query
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

const patience = 3 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "send":
		return send(args[1], args[2])
	case len(args) == 3 && args[0] == "hold":
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return hold(args[1], n)
	}
	return errors.New("usage: attacker send udp|tcp ADDRESS, attacker hold ADDRESS COUNT")
}

// send prints nothing where nothing comes back.
func send(network, address string) error {
	message, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	c, err := (&net.Dialer{Timeout: patience}).Dial(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	if network == "tcp" {
		message = append([]byte{byte(len(message) >> 8), byte(len(message))}, message...)
	}
	if _, err := c.Write(message); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	reply := make([]byte, 1<<16)
	n, err := c.Read(reply)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() || errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	reply = reply[:n]
	if network == "tcp" {
		reply = reply[2:]
	}
	_, err = fmt.Fprintf(os.Stdout, "%x\n", reply)
	return err
}

// hold opens a connection anew as soon as the server ends it, and says once how
// many are open when that many are.
func hold(address string, count int) error {
	var open atomic.Int64
	for range count {
		go func() {
			for {
				c, err := (&net.Dialer{Timeout: patience}).Dial("tcp", address)
				if err != nil {
					continue
				}
				open.Add(1)
				_, _ = c.Write([]byte{0, 40, 1, 2}) // forty bytes are to come
				_, _ = c.Read(make([]byte, 1))      // until the server has had enough
				open.Add(-1)
				_ = c.Close()
			}
		}()
	}
	for range time.Tick(time.Second) {
		_, _ = fmt.Fprintln(os.Stdout, "HELD", open.Load())
	}
	return nil
}
