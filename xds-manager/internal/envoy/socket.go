package envoy

import (
	"fmt"
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Linux's numbers, written out: the manager renders for Envoy's kernel, not
// for the machine that compiled it.
const (
	solSocket      = 1
	soKeepalive    = 9
	soBindToDevice = 25
	ipprotoTCP     = 6
	tcpKeepIdle    = 4
	tcpKeepIntvl   = 5
	tcpKeepCnt     = 6
	tcpUserTimeout = 18
)

// A client that vanished is noticed after 120 + 4*30 seconds of silence, well below
// the 24 h for which a quiet connection is kept; a backend after stalledMillis,
// which takes the place of the number of probes.
const (
	keepIdleSeconds     = 120
	keepIntervalSeconds = 30
	keepProbes          = 4
)

// stalledMillis is how long a backend may take nothing of what it is sent. When a
// client goes, Envoy keeps what that client sent until the backend has taken it,
// for as long as an idle connection, and nobody's limit counts that any more.
const stalledMillis = 15 * 60 * 1000

// Address is a TCP address.
func Address(a netip.AddrPort) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       a.Addr().String(),
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port())},
	}}}
}

// PipeAddress is a unix socket's address.
func PipeAddress(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path, Mode: 0o660}}}
}

// Device is a network device. Its index tells a device that was made anew under
// its old name: a socket that was bound to the old one hears nothing any more.
type Device struct {
	Name  string
	Index int
}

// SocketOptions are a listening socket's: bound to one device, so that a packet
// that was routed in through another one finds nobody, and with keepalive, which
// Linux hands down to every accepted socket without a system call each.
func SocketOptions(device Device) []*corev3.SocketOption {
	out := make([]*corev3.SocketOption, 0, 5)
	if device.Name != "" {
		out = append(out, &corev3.SocketOption{
			// Envoy opens a new socket when an option differs, and this does when
			// the device is another one.
			Description: fmt.Sprintf("device %d", device.Index), Level: solSocket, Name: soBindToDevice,
			Value: &corev3.SocketOption_BufValue{BufValue: []byte(device.Name)},
			State: corev3.SocketOption_STATE_PREBIND,
		})
	}
	return append(out,
		intOption("keepalive", solSocket, soKeepalive, 1),
		intOption("keepalive idle", ipprotoTCP, tcpKeepIdle, keepIdleSeconds),
		intOption("keepalive interval", ipprotoTCP, tcpKeepIntvl, keepIntervalSeconds),
		intOption("keepalive probes", ipprotoTCP, tcpKeepCnt, keepProbes),
	)
}

// backendOptions are a connection's to a backend.
func backendOptions() []*corev3.SocketOption {
	return []*corev3.SocketOption{intOption("stalled", ipprotoTCP, tcpUserTimeout, stalledMillis)}
}

func intOption(what string, level, name, value int64) *corev3.SocketOption {
	return &corev3.SocketOption{
		Description: what, Level: level, Name: name,
		Value: &corev3.SocketOption_IntValue{IntValue: value},
		State: corev3.SocketOption_STATE_PREBIND,
	}
}

// ADS names the one aggregated stream as a resource's source.
func ADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}
