package oooi

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// What a value has to be, where it is refused.
var (
	errDial     = errors.New("want HOST:PORT, such as oooi-hub.oooi-system.svc:8443")
	errResource = errors.New("want NAMESPACE/NAME")
	errIPv4     = errors.New("want the IPv4 address of one host, such as 192.0.2.9")
	errIP       = errors.New("want an IP address")
	errPort     = errors.New("want a port from 0 to 65535")
	errSwitch   = errors.New("want on or off")
)

// Names in a cluster (RFC 1123), and what can stand in a host's.
var (
	labelPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	namePattern  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
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

// resource takes the name of a namespace and that of something in it.
func resource(s string) error {
	ns, name, ok := strings.Cut(s, "/")
	if !ok || !labelPattern.MatchString(ns) || !namePattern.MatchString(name) {
		return errResource
	}
	return nil
}

// hostIPv4 takes what one host can have.
func hostIPv4(s string) error {
	ip, err := netip.ParseAddr(s)
	if err != nil || !ip.Is4() || ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return errIPv4
	}
	return nil
}

func onOrOff(s string) error {
	if s != "on" && s != "off" {
		return errSwitch
	}
	return nil
}

// needs says what a flag has no use without.
func needs(what string, others [][2]string) error {
	for _, o := range others {
		if o[1] == "" {
			return fmt.Errorf("%s needs %s", what, o[0])
		}
	}
	return nil
}

// portNumber takes what can be listened on; 0 is any.
func portNumber(s string) error {
	if _, err := strconv.ParseUint(s, 10, 16); err != nil {
		return errPort
	}
	return nil
}
