package lease

import (
	"fmt"
	"strconv"
	"strings"
)

// MAC is an Ethernet address, the key of every binding (RFC 2131 section 2
// would also allow the client identifier, but a machine changes that between
// its initrd and its operating system).
type MAC [6]byte

// ParseMAC reads six bytes in hexadecimal, parted by colons or dashes. Upper
// case and a missing leading zero are accepted, as people write them.
func ParseMAC(s string) (MAC, error) {
	var m MAC
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ':' || r == '-' })
	if len(parts) != len(m) {
		return MAC{}, fmt.Errorf("MAC address %q: want six bytes", s)
	}
	for i, p := range parts {
		b, err := strconv.ParseUint(p, 16, 8)
		if err != nil || len(p) > 2 {
			return MAC{}, fmt.Errorf("MAC address %q: byte %d is not hexadecimal", s, i+1)
		}
		m[i] = byte(b)
	}
	return m, nil
}

// String writes the usual lower-case form with colons.
func (m MAC) String() string {
	const hex = "0123456789abcdef"
	b := make([]byte, 0, 17)
	for i, v := range m {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, hex[v>>4], hex[v&15])
	}
	return string(b)
}

// Unicast says whether one station can have this address: not zero, not
// broadcast, not multicast.
func (m MAC) Unicast() bool { return m != MAC{} && m[0]&1 == 0 }

// VM names one interface of a virtual machine.
type VM struct {
	// Namespace is the machine's namespace, which is also its cluster.
	Namespace string
	// Name is the name of the VirtualMachine, or of the
	// VirtualMachineInstance that has none, and so also the host name.
	Name string
	// Interface is the name of the interface in the machine's spec.
	Interface string
}

// Known says whether v names a machine at all.
func (v VM) Known() bool { return v.Name != "" }

// String is "namespace/name", empty for no machine.
func (v VM) String() string {
	if !v.Known() {
		return ""
	}
	return v.Namespace + "/" + v.Name
}

// same says whether both name the same interface, as far as both tell.
func (v VM) same(o VM) bool {
	return v.Namespace == o.Namespace && v.Name == o.Name && (v.Interface == o.Interface || v.Interface == "" || o.Interface == "")
}
