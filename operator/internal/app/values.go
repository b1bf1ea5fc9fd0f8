package app

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a value has to be, where it is refused.
var (
	errDial      = errors.New("want HOST:PORT, such as oooi-hub.oooi-system.svc:8443")
	errIPv4      = errors.New("want the IPv4 address of one host, such as 192.0.2.9")
	errListen    = errors.New("want HOST:PORT or :PORT")
	errNowhere   = errors.New("want HOST:PORT, :PORT, or 0 for nowhere")
	errNamespace = errors.New("want the name of a namespace")
	errTruth     = errors.New("want true or false")
)

// A namespace's name (RFC 1123), and what can stand in a host's.
var (
	labelPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	hostPattern  = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$`)
)

// dialAddress takes what can be dialled.
func dialAddress(s string) error {
	host, port, err := net.SplitHostPort(s)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || !isHost(host) {
		return errDial
	}
	return nil
}

// isHost takes addresses and names, with or without their final dot. What ends in
// a number is no name.
func isHost(s string) bool {
	if ip, err := netip.ParseAddr(s); err == nil {
		return !ip.IsUnspecified() && !ip.IsMulticast()
	}
	s = strings.TrimSuffix(s, ".")
	last := s[strings.LastIndexByte(s, '.')+1:]
	return hostPattern.MatchString(s) && !strings.Contains(s, "..") && strings.Trim(last, "0123456789") != ""
}

// hostIPv4 takes what one host can have.
func hostIPv4(s string) error {
	ip, err := netip.ParseAddr(s)
	if err != nil || !ip.Is4() || ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return errIPv4
	}
	return nil
}

// listenAddress takes what can be listened on: an address, a name or nothing, and
// a port, where 0 is any.
func listenAddress(s string) error {
	host, port, err := net.SplitHostPort(s)
	_, perr := strconv.ParseUint(port, 10, 16)
	_, herr := netip.ParseAddr(host)
	if err != nil || perr != nil || host != "" && herr != nil && !isHost(host) {
		return errListen
	}
	return nil
}

// listenOrNot takes 0 and nothing too.
func listenOrNot(s string) error {
	if s != "0" && s != "" && listenAddress(s) != nil {
		return errNowhere
	}
	return nil
}

func namespaceName(s string) error {
	if !labelPattern.MatchString(s) {
		return errNamespace
	}
	return nil
}

// oneOf takes the values that are listed, and no other.
func oneOf(values ...string) func(string) error {
	last := len(values) - 1
	return func(s string) error {
		if !slices.Contains(values, s) {
			return fmt.Errorf("want %s or %s", strings.Join(values[:last], ", "), values[last])
		}
		return nil
	}
}
