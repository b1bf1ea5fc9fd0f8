package node

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed assets/nad-crd.yaml
var nadCRD string

//go:embed assets/prepare.sh
var prepareScript string

//go:embed assets/lease.sh
var leaseScript string

//go:embed assets
var assets embed.FS

// configFiles are written for every node. The default network is inside
// 00-multus.conflist, as a delegate: of a "clusterNetwork" that is a conflist
// file Multus 4.2.2 keeps too little to delete the pod's interface again. It
// sets ip_forward=1, which pods in the field inherit from their node and pods
// here would not.
var configFiles = []string{"00-multus.conflist", "containerd.toml", "kubelet.yaml", "kube-proxy.yaml"}

// nodeConfig is what the configuration files of a node are made from.
type nodeConfig struct {
	Name, IP, PodCIDR, PKI, State, Cgroup, DNS, Pause string
}

func (n nodeConfig) write() error {
	for _, name := range configFiles {
		parsed, err := template.ParseFS(assets, "assets/"+name)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", name, err)
		}
		var out bytes.Buffer
		if err := parsed.Execute(&out, n); err != nil {
			return fmt.Errorf("filling in %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(n.State, name), out.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
