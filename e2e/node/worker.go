package node

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/densityops/oooi/e2e/images"
)

const pauseImage = "localhost/e2e/pause:1"

// quick has a client of the API server miss a connection that was cut within
// seconds; by default it sits on it for up to 45.
var quick = [2]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS=5", "HTTP2_PING_TIMEOUT_SECONDS=5"}

// Name is the name of the node with that index, counted from 1.
func Name(index int) string { return fmt.Sprintf("node%d", index) }

func (c *Cluster) startNodes(ctx context.Context) error {
	pause, err := images.Build(images.Spec{
		Entrypoint: []string{"/pause"}, User: "65532:65532",
		Files: []images.File{{Path: "/pause", Source: c.tool("pause"), Mode: 0o755}},
	})
	if err != nil {
		return err
	}
	if err := images.WriteArchive(c.pauseArchive(), pauseImage, pause); err != nil {
		return err
	}
	for i := 1; i <= c.opts.Nodes; i++ {
		if err := c.startNode(ctx, i); err != nil {
			return err
		}
	}
	for i := 1; i <= c.opts.Nodes; i++ {
		if err := c.WaitNode(ctx, i); err != nil {
			return err
		}
		if !c.opts.NetworkPolicy {
			continue
		}
		if err := c.startRouter(c.Nodes[i-1]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) pauseArchive() string { return filepath.Join(c.opts.Dir, "pause.tar") }

// startNode makes a node's namespaces and starts its programs.
func (c *Cluster) startNode(ctx context.Context, index int) error {
	name := Name(index)
	ns, err := c.member(ctx, name, nodeIP(index))
	if err != nil {
		return err
	}
	if err := c.routePods(ctx, ns, index); err != nil {
		return err
	}
	if err := c.plugVLAN(ctx, ns, index); err != nil {
		return err
	}
	config, err := c.configureNode(name, index)
	if err != nil {
		return err
	}
	return c.boot(ctx, index, config)
}

// boot starts a node's programs in namespaces of its own; its network
// namespace and its configuration are there.
func (c *Cluster) boot(ctx context.Context, index int, config nodeConfig) error {
	if err := makeCgroup(config.Cgroup); err != nil {
		return err
	}
	box, err := c.box(ctx, config.Name, c.netns(config.Name))
	if err != nil {
		return err
	}
	if index > len(c.Nodes) {
		c.Nodes = append(c.Nodes, box)
	}
	c.Nodes[index-1] = box
	if _, err := box.Script(ctx, prepareScript, "NODE="+config.Name, "STATE="+config.State, "TOOLS="+c.opts.Tools,
		"UPSTREAM="+UpstreamDNS, "REGISTRY="+Registry); err != nil {
		return err
	}
	return c.startWorker(ctx, box, config)
}

func (c *Cluster) nodeConfig(name string, index int) (nodeConfig, error) {
	own, err := ownCgroup()
	return nodeConfig{
		Name: name, IP: nodeIP(index), PodCIDR: podCIDR(index), PKI: filepath.Join(c.opts.Dir, "pki"),
		State: filepath.Join(c.opts.Dir, name), Cgroup: filepath.Join(own, c.state.ID, name), DNS: ClusterDNS, Pause: pauseImage,
	}, err
}

func (c *Cluster) configureNode(name string, index int) (nodeConfig, error) {
	config, err := c.nodeConfig(name, index)
	if err != nil {
		return config, err
	}
	if err := c.note(func(s *state) { s.Cgroups = append(s.Cgroups, config.Cgroup) }); err != nil {
		return config, err
	}
	if err := os.MkdirAll(config.State, 0o755); err != nil {
		return config, fmt.Errorf("making the node's directory: %w", err)
	}
	if err := c.pki.Sign(name, pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}, config.IP, name); err != nil {
		return config, err
	}
	if err := c.pki.Kubeconfig(name, apiServer); err != nil {
		return config, err
	}
	multus, err := os.ReadFile(c.pki.Path("multus.kubeconfig"))
	if err != nil {
		return config, fmt.Errorf("reading the kubeconfig of Multus: %w", err)
	}
	if err := os.WriteFile(filepath.Join(config.State, "multus.kubeconfig"), multus, 0o600); err != nil {
		return config, fmt.Errorf("writing the kubeconfig of Multus: %w", err)
	}
	return config, config.write()
}

func (c *Cluster) startWorker(ctx context.Context, box *Box, config nodeConfig) error {
	at := func(name string) string { return filepath.Join(config.State, name) }
	if _, err := box.Daemon("containerd", "containerd", "-c", at("containerd.toml")); err != nil {
		return err
	}
	err := Wait(ctx, patience, "containerd", func(ctx context.Context) error { return box.Run(ctx, "ctr", "version") })
	if err != nil {
		return err
	}
	if err := box.Run(ctx, "ctr", "-n", "k8s.io", "images", "import", c.pauseArchive()); err != nil {
		return err
	}
	if err := c.startKubelet(box, config); err != nil {
		return err
	}
	_, err = box.Daemon("kube-proxy", "env", quick[0], quick[1], c.tool("kube-proxy"), "--config="+at("kube-proxy.yaml"))
	return err
}

func (c *Cluster) startKubelet(box *Box, config nodeConfig) error {
	at := func(name string) string { return filepath.Join(config.State, name) }
	_, err := box.Daemon("kubelet", "env", quick[0], quick[1], c.tool("kubelet"), "--config="+at("kubelet.yaml"), "--kubeconfig="+c.pki.Path(config.Name+".kubeconfig"),
		"--root-dir="+at("kubelet"), "--hostname-override="+config.Name, "--node-ip="+config.IP)
	return err
}

// RestartKubelet starts a node's kubelet anew. The containers live on.
func (c *Cluster) RestartKubelet(ctx context.Context, index int) error {
	box := c.Nodes[index-1]
	config, err := c.nodeConfig(box.Name, index)
	if err != nil {
		return err
	}
	if err := box.Run(ctx, "pkill", "-KILL", "-x", "kubelet"); err != nil {
		return err
	}
	err = Wait(ctx, patience, "the kubelet to end", func(ctx context.Context) error {
		_, err := box.Script(ctx, "! pgrep -x kubelet")
		return err
	})
	if err != nil {
		return err
	}
	return c.startKubelet(box, config)
}

// startRouter starts what enforces NetworkPolicies. It ends at once where its
// Node is not there yet.
func (c *Cluster) startRouter(box *Box) error {
	_, err := box.Daemon("kube-router", "env", quick[0], quick[1], c.tool("kube-router"), "--kubeconfig="+c.pki.Path("router.kubeconfig"), "--hostname-override="+box.Name,
		"--run-firewall=true", "--run-router=false", "--run-service-proxy=false", "--enable-cni=false",
		"--service-cluster-ip-range="+ServiceCIDR, "--health-port=0", "--metrics-port=0")
	return err
}

// WaitNode waits until a node is Ready and takes pods.
func (c *Cluster) WaitNode(ctx context.Context, index int) error {
	name := Name(index)
	err := Wait(ctx, patience, name+" to be Ready", func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "get", "node", name, "-o",
			`jsonpath={.status.conditions[?(@.type=="Ready")].status}/{.spec.taints}`)
		if err == nil && out != "True/" {
			err = fmt.Errorf("%s is %q", name, out)
		}
		return err
	})
	if err == nil {
		c.opts.Progress.Say("%s is Ready", name)
	}
	return err
}

// ImportImages loads image archives into every node.
func (c *Cluster) ImportImages(ctx context.Context, archives ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, box := range c.Nodes {
		group.Go(func() error {
			for _, archive := range archives {
				if err := box.Run(ctx, "ctr", "-n", "k8s.io", "images", "import", archive); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// KillNode ends a node as a power cut does. Its network namespace and its
// disk stay, so that StartNode can bring it back.
func (c *Cluster) KillNode(ctx context.Context, index int) error {
	box := c.Nodes[index-1]
	if err := box.Kill(ctx); err != nil {
		return err
	}
	config, err := c.nodeConfig(box.Name, index)
	if err != nil {
		return err
	}
	return removeCgroup(ctx, config.Cgroup)
}

// StartNode brings a node back that KillNode ended.
func (c *Cluster) StartNode(ctx context.Context, index int) error {
	config, err := c.nodeConfig(Name(index), index)
	if err != nil {
		return err
	}
	if err := c.boot(ctx, index, config); err != nil {
		return err
	}
	if err := c.WaitNode(ctx, index); err != nil || !c.opts.NetworkPolicy {
		return err
	}
	return c.startRouter(c.Nodes[index-1])
}
