package actor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sort"
	"strconv"
	"sync"
	"time"
)

// Scan is the part of scan: it tries to open TCP connections.
type Scan struct {
	Targets []Target
	// Patience for each port in milliseconds.
	Patience int
	// Tries is how often a port that says nothing is tried; 0 is once.
	Tries int
}

// Target is an address and an inclusive range of its ports.
type Target struct {
	Address netip.Addr
	First   uint16
	Last    uint16
}

// Found lists what took a connection, sorted, and how many ports said nothing at
// all, neither yes nor no: what a firewall drops.
type Found struct {
	Open   []string
	Silent int
}

// scanners is how many connections are tried at once.
const scanners = 256

func (s Scan) run(ctx context.Context) Found {
	ports := make(chan netip.AddrPort)
	var mu sync.Mutex
	var found Found
	var wait sync.WaitGroup
	for range scanners {
		wait.Go(func() {
			for target := range ports {
				open, silent := s.try(ctx, target)
				for n := 1; silent && n < s.Tries; n++ {
					open, silent = s.try(ctx, target)
				}
				mu.Lock()
				if open {
					found.Open = append(found.Open, target.String())
				}
				if silent {
					found.Silent++
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range s.Targets {
		for port := int(t.First); port <= int(t.Last); port++ {
			ports <- netip.AddrPortFrom(t.Address, uint16(port))
		}
	}
	close(ports)
	wait.Wait()
	sort.Slice(found.Open, func(i, j int) bool { return portOf(found.Open[i]) < portOf(found.Open[j]) })
	return found
}

func (s Scan) try(ctx context.Context, target netip.AddrPort) (open, silent bool) {
	dialer := net.Dialer{Timeout: time.Duration(s.Patience) * time.Millisecond}
	conn, err := dialer.DialContext(ctx, "tcp4", target.String())
	if err != nil {
		timeout, ok := errors.AsType[net.Error](err)
		return false, ok && timeout.Timeout()
	}
	_ = conn.Close()
	return true, false
}

func portOf(address string) int {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return n
}
