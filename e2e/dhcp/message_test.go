package dhcp

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The machine that the files are of.
const (
	theVM   = "02:00:5e:10:00:0a"
	theVMIP = "192.0.2.101"
	theName = "example-hcp-a-7k2lq-x9fzt"
	otherVM = "02:00:5e:10:00:0b"
)

// The message types (RFC 2132 section 9.6).
const (
	typeOffer   = 2
	typeRequest = 3
	typeAck     = 5
	typeNak     = 6
)

// Some options.
const (
	optDNS       = 6
	optName      = 12
	optRequested = 50
	optType      = 53
	optServer    = 54
)

// optionsAt is where options begin (RFC 2131 section 2).
const optionsAt = 240

// module reads a file of dhcpd's own tests, which keep the cases' bytes.
func module(t *testing.T, parts ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "dhcpd", "internal"}, parts...)...))
	require.NoError(t, err)
	return b
}

// message is a client's message as a case has it, byte for byte.
func message(t *testing.T, name string) []byte {
	t.Helper()
	return module(t, "dhcp", "testdata", name)
}

// golden is the whole answer to a case's message.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	out, err := hex.DecodeString(string(bytes.TrimSpace(module(t, "dhcp", "testdata", "answers", name+".hex"))))
	require.NoError(t, err)
	return out
}

// vms are the virtual machines of a case, as YAML.
func vms(t *testing.T, name string) string {
	t.Helper()
	return string(module(t, "vmi", "testdata", name))
}

func chaddr(m []byte) string { return net.HardwareAddr(m[28:34]).String() }
func ciaddr(m []byte) string { return netip.AddrFrom4([4]byte(m[12:16])).String() }
func yiaddr(p packet) string { return netip.AddrFrom4([4]byte(p.payload[16:20])).String() }

func addr(s string) []byte { return netip.MustParseAddr(s).AsSlice() }

// of is the message of another station, its client identifier too.
func of(t *testing.T, mac string, m []byte) []byte {
	t.Helper()
	to, err := net.ParseMAC(mac)
	require.NoError(t, err)
	return bytes.ReplaceAll(m, bytes.Clone(m[28:34]), to)
}

// with puts an option behind the message type, which comes first.
func with(m []byte, code byte, value ...byte) []byte {
	return slices.Insert(slices.Clone(m), optionsAt+3, append([]byte{code, byte(len(value))}, value...)...)
}

// typed is the message with another type.
func typed(m []byte, typ byte) []byte {
	out := slices.Clone(m)
	out[optionsAt+2] = typ
	return out
}

// from is the message with another ciaddr.
func from(m []byte, ip string) []byte {
	out := slices.Clone(m)
	copy(out[12:16], addr(ip))
	return out
}

// option is the value of an option, nil when absent.
func option(m []byte, code byte) []byte {
	for b := m[optionsAt:]; len(b) > 1 && b[0] != 255; {
		if b[0] == 0 {
			b = b[1:]
			continue
		}
		if b[0] == code {
			return b[2 : 2+int(b[1])]
		}
		b = b[2+int(b[1]):]
	}
	return nil
}

// selecting is the REQUEST that follows an OFFER (RFC 2131 section 4.3.2).
func selecting(discover []byte, offer packet) []byte {
	return with(with(typed(discover, typeRequest), optServer, option(offer.payload, optServer)...), optRequested, offer.payload[16:20]...)
}

// renewal is case C07's REQUEST for any station and address.
func renewal(t *testing.T, mac, ip string) []byte {
	t.Helper()
	return from(of(t, mac, message(t, "dhcp-renew-ciaddr")), ip)
}
