# Inside a node's box, before anything runs: private versions of what Kubernetes
# writes to, and the values of kernel tunables that kubelet wants to see.
# Needs: NODE, STATE, TOOLS, UPSTREAM, REGISTRY
hostname "$NODE"
mount -t tmpfs -o mode=755 tmpfs /run
for d in etc opt var; do
  mkdir -p "$STATE/overlay/$d" "$STATE/overlay/$d.work"
  mount -t overlay overlay -o "lowerdir=/$d,upperdir=$STATE/overlay/$d,workdir=$STATE/overlay/$d.work" "/$d"
done
# Volumes that are mounted later must show in the pods.
mount --make-rshared /

# kubelet would set these machine-wide; it is shown the wanted values instead.
i=0
for kv in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000 vm/panic_on_oom=0; do
  [ -e "/proc/sys/${kv%=*}" ] || continue
  i=$((i + 1))
  echo "${kv#*=}" >"$STATE/sysctl.$i"
  mount --bind "$STATE/sysctl.$i" "/proc/sys/${kv%=*}"
done
echo 1 >/proc/sys/net/ipv4/ip_forward
# With br_netfilter a VM's frame that merely crosses the node's VLAN bridge goes
# through kube-proxy's rules: a ClusterIP would answer on the VLAN, oooi or not.
for f in /proc/sys/net/bridge/bridge-nf-call-*; do
  [ ! -e "$f" ] || echo 0 >"$f"
done

mkdir -p /opt/cni/bin /etc/cni/net.d /etc/cni/multus /var/log/pods
cp /usr/lib/cni/* "$TOOLS/multus" /opt/cni/bin/
cp "$STATE/multus.kubeconfig" /etc/cni/multus/kubeconfig
cp "$STATE/00-multus.conflist" /etc/cni/net.d/
# The world may serve images, without TLS.
mkdir -p "/etc/containerd/certs.d/$REGISTRY"
printf 'server = "http://%s"\n[host."http://%s"]\n  capabilities = ["pull", "resolve"]\n' "$REGISTRY" "$REGISTRY" >"/etc/containerd/certs.d/$REGISTRY/hosts.toml"
echo "nameserver $UPSTREAM" >"$STATE/resolv.conf"
