package plan

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// CheckLeaseTime names what is wrong with a lease time; empty is the default.
func CheckLeaseTime(lease v1alpha1.LeaseTime, field string) []string {
	if lease == "" {
		return nil
	}
	d, err := time.ParseDuration(string(lease))
	if err != nil || d < minLease || d > maxLease {
		return []string{fmt.Sprintf("%s %q must be a duration between 60s and 720h, such as 1h", field, lease)}
	}
	return nil
}

// LeaseTime is the parsed lease time, with its default.
func LeaseTime(lease v1alpha1.LeaseTime) time.Duration {
	d, err := time.ParseDuration(string(lease))
	if err != nil || d < minLease || d > maxLease {
		return time.Hour
	}
	return d
}

// dhcpLists are the lists of a DHCP server, and what they are judged by.
type dhcpLists struct {
	// prefix of the fields' names.
	prefix string
	cidr   netip.Prefix
	// taken are the gateway's and the servers' addresses.
	taken        []netip.Addr
	options      []v1alpha1.DHCPOption
	reservations []v1alpha1.DHCPReservation
	excluded     []v1alpha1.IPv4Range
	relays       []v1alpha1.IPv4
}

// faults names what is wrong in them.
func (l dhcpLists) faults() []string {
	out := append(l.optionFaults(), l.reservationFaults()...)
	for _, e := range l.excluded {
		if _, err := ParseRange(string(e)); err != nil {
			out = append(out, l.prefix+"excludedRanges "+err.Error())
		}
	}
	for _, r := range l.relays {
		if _, err := ParseIPv4(string(r)); err != nil {
			out = append(out, l.prefix+"relays "+err.Error())
		}
	}
	return out
}

// decided are the options that the server decides itself, and none at all:
// RFC 2131 section 3 and RFC 2132 say what each carries.
var decided = []int32{1, 3, 6, 12, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 61, 82}

func (l dhcpLists) optionFaults() []string {
	var out []string
	seen := map[int32]bool{}
	for _, o := range l.options {
		_, err := OptionBytes(o)
		switch {
		case err != nil:
			out = append(out, l.prefix+"options "+err.Error())
		case slices.Contains(decided, o.Code):
			out = append(out, fmt.Sprintf("%soptions code %d is decided by the server", l.prefix, o.Code))
		case seen[o.Code]:
			out = append(out, fmt.Sprintf("%soptions code %d is there twice", l.prefix, o.Code))
		}
		seen[o.Code] = true
	}
	return out
}

func (l dhcpLists) reservationFaults() []string {
	var out []string
	fault := func(format string, args ...any) {
		out = append(out, l.prefix+"reservations "+fmt.Sprintf(format, args...))
	}
	macs, ips := map[string]bool{}, map[netip.Addr]bool{}
	for _, r := range l.reservations {
		mac, err := ParseMAC(r.MACAddress)
		switch {
		case err != nil:
			fault("%v", err)
		case mac[0]&1 != 0 || mac.String() == "00:00:00:00:00:00":
			fault("macAddress %q must be the address of one station", r.MACAddress)
		case macs[mac.String()]:
			fault("macAddress %s is there twice", r.MACAddress)
		}
		macs[mac.String()] = true
		a, err := ParseIPv4(string(r.IP))
		switch {
		case err != nil:
			fault("%v", err)
		case !isHost(l.cidr, a):
			fault("%s must be a host address inside networkConfig.cidr %s", a, l.cidr)
		case slices.Contains(l.taken, a):
			fault("%s is the gateway's or a server's", a)
		case ips[a]:
			fault("ip %s is there twice", a)
		}
		ips[a] = true
	}
	return out
}

// oneOf names a value that is none of those that there are; empty is the default.
func oneOf[T ~string](field string, value T, values ...T) []string {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	return []string{fmt.Sprintf("%s %q must be one of %s", field, value, strings.Join(words(values), ", "))}
}

func words[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// between names a number that is out of bounds; zero is the default.
func between[T ~int32](field string, value, least, most T) []string {
	if value == 0 || value >= least && value <= most {
		return nil
	}
	return []string{fmt.Sprintf("%s %d must be between %d and %d", field, value, least, most)}
}

// ParseMAC reads a 48-bit hardware address in colon or dash form.
func ParseMAC(s string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || strings.Contains(s, ".") {
		return nil, fmt.Errorf("%q must be a hardware address such as 02:00:5e:10:00:0a", s)
	}
	return mac, nil
}

// OptionBytes is an option's value as it goes on the wire: addresses separated
// by commas, 0x and hex digits, or text.
func OptionBytes(o v1alpha1.DHCPOption) ([]byte, error) {
	if o.Code < 1 || o.Code > 254 {
		return nil, fmt.Errorf("code %d must be between 1 and 254", o.Code)
	}
	value, err := optionValue(o.Value)
	if err != nil {
		return nil, fmt.Errorf("code %d: %w", o.Code, err)
	}
	// RFC 2132 section 2: the length is one byte.
	if len(value) == 0 || len(value) > 255 {
		return nil, fmt.Errorf("code %d: the value has %d bytes, 1 to 255 are possible", o.Code, len(value))
	}
	return value, nil
}

func optionValue(s string) ([]byte, error) {
	if digits, found := strings.CutPrefix(s, "0x"); found {
		b, err := hex.DecodeString(digits)
		if err != nil {
			return nil, fmt.Errorf("%q must be an even number of hex digits after 0x", s)
		}
		return b, nil
	}
	var addrs []byte
	for part := range strings.SplitSeq(s, ",") {
		a, err := ParseIPv4(strings.TrimSpace(part))
		if err != nil {
			return []byte(s), nil
		}
		addrs = append(addrs, a.AsSlice()...)
	}
	return addrs, nil
}
