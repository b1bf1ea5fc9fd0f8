package facts

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// netConf is what we read of a CNI configuration: one plugin, or the first of a
// list, with the MTU of the last that names one ("tuning" changes it).
// OVN-Kubernetes, bridge, macvlan, ipvlan and vlan say the same in different words.
type netConf struct {
	Name                string `json:"name"`
	Type                string `json:"type"`
	MTU                 int    `json:"mtu"`
	Bridge              string `json:"bridge"`
	Master              string `json:"master"`
	PhysicalNetworkName string `json:"physicalNetworkName"`
	Topology            string `json:"topology"`
	VLAN                int    `json:"vlan"`
	VLANID              int    `json:"vlanID"`
	VLANIDLower         int    `json:"vlanId"`
	IPAM                struct {
		Type string `json:"type"`
	} `json:"ipam"`
	Plugins []netConf `json:"plugins"`

	// retuned: a plugin after the first names the MTU.
	retuned bool
}

func parseNetConf(text string) (netConf, error) {
	var c netConf
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("parsing CNI configuration: %w", err)
	}
	if len(c.Plugins) > 0 {
		first := c.Plugins[0]
		first.Name = c.Name
		for _, p := range c.Plugins[1:] {
			first.MTU, first.retuned = cmp.Or(p.MTU, first.MTU), first.retuned || p.MTU != 0
		}
		return first, nil
	}
	return c, nil
}

// master is what the network lies on.
func (c netConf) master() string {
	for _, m := range []string{c.Bridge, c.Master, c.PhysicalNetworkName} {
		if m != "" {
			return m
		}
	}
	return ""
}

func (c netConf) vlan() int {
	for _, v := range []int{c.VLAN, c.VLANID, c.VLANIDLower} {
		if v != 0 {
			return v
		}
	}
	return 0
}
