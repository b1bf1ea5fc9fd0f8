// Package node brings up a real Kubernetes on one machine and takes it down
// again: etcd, kube-apiserver, controller-manager and scheduler in one "box",
// and containerd, runc, kubelet, kube-proxy, the CNI plugins and Multus in a
// box for every node. A box is a set of Linux namespaces of its own (network,
// mount, pid, ipc, uts) with an init; ending that init ends everything that
// runs in it, and its mounts and addresses go with it.
//
// One more network namespace, the switch, holds two bridges: the network of
// the nodes, and the VLAN that the nodes and the VMs share. A VM is a box with
// one port on the VLAN; the world is a box that every default route leads to.
//
// The package refuses to touch the machine's own network, its /etc, /opt and
// /var (boxes see overlays of them) and any cgroup outside the caller's own.
//
// Invariant: what Up has made is written down before it is used, so that Down
// removes all of it whatever has become of the process that called Up.
package node
