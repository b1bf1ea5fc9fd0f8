package app

import (
	"bytes"
	"fmt"
	"os"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/server"
)

// forwarding reports that packets of the VLAN are routed through this pod:
// without the fence nothing else stops them.
func forwarding(d server.Device) []config.Problem {
	if d.Name == "" {
		return nil
	}
	b, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + d.Name + "/forwarding")
	if err != nil || !bytes.HasPrefix(b, []byte("1")) {
		return nil
	}
	return []config.Problem{{
		Reason: "ForwardingEnabled",
		Message: fmt.Sprintf("this pod forwards packets of the VLAN; run the fence, or add to the NetworkAttachmentDefinition's plugins: "+
			`{"type":"tuning","sysctl":{"net.ipv4.conf.%s.forwarding":"0"}}`, "IFNAME"),
	}}
}
