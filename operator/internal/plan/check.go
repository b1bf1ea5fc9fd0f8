package plan

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
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

// checkDHCPLists names what is wrong in the lists of a DHCP server.
func checkDHCPLists(prefix string, cidr netip.Prefix, options []v1alpha1.DHCPOption, reservations []v1alpha1.DHCPReservation,
	excluded []v1alpha1.IPv4Range, relays []v1alpha1.IPv4,
) []string {
	var faults []string
	for _, o := range options {
		if _, err := OptionBytes(o); err != nil {
			faults = append(faults, prefix+"options "+err.Error())
		}
	}
	for _, r := range reservations {
		if _, err := ParseMAC(r.MACAddress); err != nil {
			faults = append(faults, prefix+"reservations "+err.Error())
		}
		if a, err := ParseIPv4(string(r.IP)); err != nil {
			faults = append(faults, prefix+"reservations "+err.Error())
		} else if !isHost(cidr, a) {
			faults = append(faults, fmt.Sprintf("%sreservations %s must be a host address inside networkConfig.cidr %s", prefix, a, cidr))
		}
	}
	for _, e := range excluded {
		if _, err := ParseRange(string(e)); err != nil {
			faults = append(faults, prefix+"excludedRanges "+err.Error())
		}
	}
	for _, r := range relays {
		if _, err := ParseIPv4(string(r)); err != nil {
			faults = append(faults, prefix+"relays "+err.Error())
		}
	}
	return faults
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
