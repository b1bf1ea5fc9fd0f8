package deps

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/nftables"
	_ "github.com/google/nftables/expr"
	_ "github.com/insomniacslk/dhcp/dhcpv4"
	_ "github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/stretchr/testify/require"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "google.golang.org/grpc"
	_ "google.golang.org/grpc/credentials"
	_ "google.golang.org/protobuf/encoding/protojson"
	_ "k8s.io/client-go/dynamic"
	_ "k8s.io/client-go/kubernetes/typed/coordination/v1"
	_ "k8s.io/client-go/tools/cache"
	_ "k8s.io/client-go/tools/leaderelection"
	_ "kubevirt.io/api/core/v1"
	_ "kubevirt.io/client-go/kubevirt/typed/core/v1"
)
