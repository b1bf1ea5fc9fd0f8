package render

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// behaviour B12: no two children share a name outside their namespaces, however a
// tenant calls his own.
func TestForeignNamesAreOfOneChild(t *testing.T) {
	long := strings.Repeat("n", 63)
	children := [][2]string{
		{"clusters38", "tenant-vlan100-dhcp"},
		{"clusters38-tenant", "vlan100-dhcp"},
		{"clusters38-tenant-vlan100", "dhcp"},
		{long, "vlan-dhcp"},
		{long, "vlan2-dhcp"},
		{"ns", strings.Repeat("v", 59) + "-dhcp"},
		{"ns", strings.Repeat("v", 60) + "-dhcp"},
	}
	of := map[string][2]string{}
	for _, c := range children {
		name := foreignName(c[0], c[1])
		require.LessOrEqual(t, len(name), 63)
		require.NotContains(t, of, name, "%v and %v", c, of[name])
		of[name] = c
	}
}
