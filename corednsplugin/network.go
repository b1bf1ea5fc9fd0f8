package oooi

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// Reasons of problems that the pod's network can have.
const (
	// ReasonForwardingEnabled: the pod would route packets between its networks.
	ReasonForwardingEnabled = "ForwardingEnabled"
	// ReasonNoVLANRoute: answers to an additional source would leave by another device.
	ReasonNoVLANRoute = "NoVLANRoute"
)

const (
	forwardingFile = "/proc/sys/net/ipv4/conf/%s/forwarding"
	routesFile     = "/proc/net/route"
)

// networkProblems looks at the pod's network. It says nothing where the VLAN
// device is not known.
func networkProblems(c *snapshot.Config, o options) []snapshot.Problem {
	ip := o.vlan
	if !ip.IsValid() {
		ip = c.ServerIP
	}
	held, err := listDevices()
	if err != nil {
		return nil
	}
	device, ok := held.holding(ip)
	if !ok {
		return nil
	}
	var out []snapshot.Problem
	if !o.fence && forwards(fmt.Sprintf(forwardingFile, device)) {
		out = append(out, snapshot.Problem{Reason: ReasonForwardingEnabled, Message: fmt.Sprintf(
			`the pod forwards packets from the VLAN; run the fence, or add to the plugins of the NetworkAttachmentDefinition: {"type":"tuning","sysctl":{"net.ipv4.conf.IFNAME.forwarding":"0"}} (device %s)`, device)})
	}
	data, err := os.ReadFile(routesFile)
	if err != nil {
		return out
	}
	for _, p := range c.Sources[1:] {
		if routeDevice(string(data), p.Addr()) != device {
			out = append(out, snapshot.Problem{
				Reason:  ReasonNoVLANRoute,
				Message: fmt.Sprintf("no route to %s by the VLAN device: add it to the routes of the NetworkAttachmentDefinition", p),
			})
		}
	}
	return out
}

func forwards(file string) bool {
	data, err := os.ReadFile(filepath.Clean(file))
	return err == nil && strings.TrimSpace(string(data)) == "1"
}

// routeDevice is the device of the longest matching route of the main table
// (proc(5), /proc/net/route: addresses in host byte order, in hex).
func routeDevice(table string, to netip.Addr) string {
	best, device := -1, ""
	s := bufio.NewScanner(strings.NewReader(table))
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 8 {
			continue
		}
		dst, err1 := strconv.ParseUint(f[1], 16, 32)
		mask, err2 := strconv.ParseUint(f[7], 16, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		p, err := hostOrder(uint32(dst)).Prefix(ones(uint32(mask)))
		if err == nil && p.Contains(to) && p.Bits() > best {
			best, device = p.Bits(), f[0]
		}
	}
	return device
}

func hostOrder(v uint32) netip.Addr {
	var raw [4]byte
	binary.NativeEndian.PutUint32(raw[:], v)
	return netip.AddrFrom4(raw)
}

func ones(mask uint32) int {
	n := 0
	for ; mask != 0; mask &= mask - 1 {
		n++
	}
	return n
}
