package deps

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/insomniacslk/dhcp/dhcpv4"
	_ "github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	_ "github.com/stretchr/testify/require"
	_ "k8s.io/client-go/kubernetes/typed/coordination/v1"
)
