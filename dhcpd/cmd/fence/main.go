// Command fence keeps a pod that has a second leg in a VLAN from being a way
// out of it. It runs once, as an init container with NET_ADMIN alone, writes
// nftables rules into the pod's network namespace, and ends.
//
// The rules: nothing is forwarded. From the VLAN's device only packets to the
// server's address and broadcasts are taken, of sources that are answered by that
// device; TCP connections are limited per source. Other devices are left alone, and
// so are packet sockets, which see frames before the rules do.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/densityops/oooi/dhcpd/internal/version"
)

// defaultMaxConnections is far above what one worker node opens towards the
// API servers and the ingress. What so many connections hold of the proxy when
// nobody reads them is less than the proxy has.
const defaultMaxConnections = 1024

// The variables of the flags.
const (
	serverVariable = "OOOI_SERVER_IP"
	limitVariable  = "OOOI_MAX_CONNECTIONS_PER_SOURCE"
)

func main() { os.Exit(run(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)) }

type options struct {
	server         netip.Addr
	maxConnections uint32
}

func run(args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-version") {
		fmt.Fprintf(stdout, "fence %s contract %s\n", version.Module, version.Contract)
		return 0
	}
	o, err := parse(args, env, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	device, prefix, err := deviceOf(o.server)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if err := install(rules{device: device, server: o.server, prefix: prefix, maxConnections: o.maxConnections}); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "fence stands: %s on %s, %d connections per source\n", o.server, device, o.maxConnections)
	return 0
}

// parse reads flags, and the environment for those that are not given. Help goes
// to out.
func parse(args []string, env func(string) (string, bool), out io.Writer) (options, error) {
	fs := flag.NewFlagSet("fence", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	server, limit := "", strconv.Itoa(defaultMaxConnections)
	fs.StringVar(&server, "server-ip", server, "the pod's `IP` on the VLAN ("+serverVariable+")")
	fs.StringVar(&limit, "max-connections-per-source", limit, "TCP connections that one source may have open, 0 = no limit ("+limitVariable+")")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(out, "usage: fence --server-ip IP [flags]")
			fs.SetOutput(out)
			fs.PrintDefaults()
		}
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return complete(fs, server, limit, env)
}

// complete reads the environment for flags that are not given, and checks the
// values.
func complete(fs *flag.FlagSet, server, limit string, env func(string) (string, bool)) (options, error) {
	// What is said of a value names where it came from.
	serverName, limitName := "flag -server-ip", "flag -max-connections-per-source"
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if v, ok := env(serverVariable); ok && !given["server-ip"] {
		server, serverName = v, "$"+serverVariable
	}
	if v, ok := env(limitVariable); ok && !given["max-connections-per-source"] {
		limit, limitName = v, "$"+limitVariable
	}
	ip, err := netip.ParseAddr(server)
	if err != nil || !isHost(ip) {
		return options{}, fmt.Errorf("invalid value %q for %s: want the IPv4 address of one host, such as 192.0.2.9", server, serverName)
	}
	n, err := strconv.ParseUint(limit, 10, 32)
	if err != nil {
		return options{}, fmt.Errorf("invalid value %q for %s: want a number from 0 to 4294967295", limit, limitName)
	}
	return options{server: ip, maxConnections: uint32(n)}, nil
}

// isHost says whether one host on a VLAN can have the address.
func isHost(ip netip.Addr) bool {
	return ip.Is4() && !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// deviceOf finds the device that has ip, and the network that it is in.
func deviceOf(ip netip.Addr) (string, netip.Prefix, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return "", netip.Prefix{}, fmt.Errorf("listing devices: %w", err)
	}
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			return "", netip.Prefix{}, fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == ip {
				return i.Name, p, nil
			}
		}
	}
	return "", netip.Prefix{}, fmt.Errorf("no device has the address %s", ip)
}
