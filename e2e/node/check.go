package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// needs are the machine's programs and the Debian packages that hold them.
var needs = []struct{ program, pkg string }{
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
	{"unshare", "util-linux"},
	{"nft", "nftables"},
	{"pgrep", "procps"},
	{"tcpdump", "tcpdump"},
	{"curl", "curl"},
	{"busybox", "busybox-static"},
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/ptp", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"ipset", "ipset"},
	{"conntrack", "conntrack"},
}

// features are what the kernel must have, and how to see it in namespaces that
// end with the look.
var features = []struct{ name, look string }{
	{"namespaces of networks and mounts", `true`},
	{"veth devices (CONFIG_VETH)", `ip link add name v0 type veth peer name v1`},
	{"bridges (CONFIG_BRIDGE)", `ip link add name b0 type bridge`},
	{"macvlan devices (CONFIG_MACVLAN)", `ip link add name v0 type veth peer name v1 && ip link add link v0 name m0 type macvlan mode bridge`},
	{"nftables (CONFIG_NF_TABLES)", `nft add table ip a`},
	{"connection tracking (CONFIG_NF_CONNTRACK)", `nft 'add table ip a; add chain ip a b { type filter hook input priority 0; }; add rule ip a b ct state established accept'`},
	{"NAT (CONFIG_NFT_NAT)", `nft 'add table ip a; add chain ip a b { type nat hook postrouting priority 100; }; add rule ip a b masquerade'`},
	{"sets of addresses (CONFIG_IP_SET)", `ipset create a hash:ip`},
	{"overlayfs (CONFIG_OVERLAY_FS)", `mount -t tmpfs tmpfs /mnt && mkdir /mnt/1 /mnt/2 /mnt/3 && mount -t overlay -o lowerdir=/mnt/1,upperdir=/mnt/2,workdir=/mnt/3 overlay /mnt/1`},
}

// check says what keeps a cluster from coming up here, all of it at once.
func check(ctx context.Context, opts Options) error {
	if err := checkPlace(opts); err != nil {
		return err
	}
	tools := []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl",
		"kubelet", "kube-proxy", "multus", "pause",
	}
	if opts.NetworkPolicy {
		tools = append(tools, "kube-router")
	}
	var missing []string
	for _, tool := range tools {
		if _, err := os.Stat(filepath.Join(opts.Tools, tool)); err != nil {
			missing = append(missing, fmt.Sprintf("the tool %s (make e2e-needs)", filepath.Join(opts.Tools, tool)))
		}
	}
	for _, need := range needs {
		if _, err := exec.LookPath(need.program); err != nil {
			missing = append(missing, fmt.Sprintf("%s (apt-get install %s)", need.program, need.pkg))
		}
	}
	if len(missing) == 0 {
		missing = missingFeatures(ctx)
	}
	if len(missing) > 0 {
		return fmt.Errorf("a real cluster needs what is not here:\n\t%s", strings.Join(missing, "\n\t"))
	}
	return nil
}

func missingFeatures(ctx context.Context) []string {
	var missing []string
	for _, feature := range features {
		out, err := exec.CommandContext(ctx, "unshare", "--net", "--mount", "sh", "-c", feature.look).CombinedOutput()
		if err != nil {
			missing = append(missing, fmt.Sprintf("of the kernel, or of this container's rights: %s: %s", feature.name, strings.TrimSpace(string(out))))
		}
	}
	return missing
}

// checkPlace looks at what a cluster has around it.
func checkPlace(opts Options) error {
	for _, dir := range []string{"/etc/", "/opt/", "/var/", "/run/"} {
		if strings.HasPrefix(opts.Dir+"/", dir) {
			return fmt.Errorf("the state directory %s lies below %s, which the boxes see in a version of their own", opts.Dir, dir)
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("a real node needs root: namespaces, mounts and cgroups are made")
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return errors.New("this lab needs cgroup v1 (boot with systemd.unified_cgroup_hierarchy=0): pods run below the caller's own memory cgroup")
	}
	if _, err := os.Stat(filepath.Join(opts.Dir, "state.json")); err == nil {
		return fmt.Errorf("a cluster is up in %s already (make e2e-down)", opts.Dir)
	}
	return nil
}
