package node

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"path/filepath"
)

const apiServer = "https://" + controlIP + ":6443"

// startControl starts etcd and the three programs of the control plane.
func (c *Cluster) startControl(ctx context.Context) error {
	if err := c.makePKI(); err != nil {
		return err
	}
	ns, err := c.member(ctx, "control", controlIP)
	if err != nil {
		return err
	}
	if err := c.routePods(ctx, ns, 0); err != nil {
		return err
	}
	if c.Control, err = c.box(ctx, "control", ns); err != nil {
		return err
	}
	if err := c.daemons(c.etcdArgs()); err != nil {
		return err
	}
	// The API server ends where it waits for etcd for long.
	if err := Wait(ctx, patience, "etcd", func(ctx context.Context) error {
		return c.Control.Run(ctx, "curl", "-sf", "http://127.0.0.1:2379/health")
	}); err != nil {
		return err
	}
	if err := c.daemons(c.apiserverArgs()); err != nil {
		return err
	}
	if err := c.waitAPI(ctx); err != nil {
		return err
	}
	// Both end at once while the API server has not made their rights.
	if err := c.daemons(c.controllerManagerArgs(), c.schedulerArgs()); err != nil {
		return err
	}
	c.opts.Progress.Say("the API server is ready")
	return c.Apply(ctx, manifests)
}

func (c *Cluster) daemons(all ...[]string) error {
	for _, argv := range all {
		stop, err := c.Control.Daemon(filepath.Base(argv[0]), argv...)
		if err != nil {
			return err
		}
		c.stops[filepath.Base(argv[0])] = stop
	}
	return nil
}

// StopAPI ends the API server at once. The cluster must be one that this
// process has brought up.
func (c *Cluster) StopAPI() { c.stops["kube-apiserver"]() }

// StartAPI starts it again and waits until it is ready. Controller-manager and
// scheduler start with it: in the field they hold leases there and end without.
func (c *Cluster) StartAPI(ctx context.Context) error {
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if stop, found := c.stops[name]; found {
			stop()
		}
	}
	if err := c.daemons(c.apiserverArgs()); err != nil {
		return err
	}
	if err := c.waitAPI(ctx); err != nil {
		return err
	}
	return c.daemons(c.controllerManagerArgs(), c.schedulerArgs())
}

func (c *Cluster) waitAPI(ctx context.Context) error {
	return Wait(ctx, patience, "the API server", func(ctx context.Context) error {
		_, err := c.Kubectl(ctx, "get", "--raw", "/readyz")
		return err
	})
}

func (c *Cluster) tool(name string) string { return filepath.Join(c.opts.Tools, name) }

func (c *Cluster) makePKI() error {
	ca, err := NewAuthority(filepath.Join(c.opts.Dir, "pki"))
	if err != nil {
		return err
	}
	c.pki = ca
	if err := ca.ServiceAccountKeys(); err != nil {
		return err
	}
	if err := ca.Sign("apiserver", pkix.Name{CommonName: "kube-apiserver"}, controlIP, APIServiceIP, "127.0.0.1", "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"); err != nil {
		return err
	}
	for name, subject := range map[string]pkix.Name{
		"front-proxy":    {CommonName: "front-proxy"},
		"kubelet-client": {CommonName: "kubelet-client", Organization: []string{"system:masters"}},
		"admin":          {CommonName: "admin", Organization: []string{"system:masters"}},
		"kcm":            {CommonName: "system:kube-controller-manager"},
		"scheduler":      {CommonName: "system:kube-scheduler"},
		"proxy":          {CommonName: "system:kube-proxy"},
		"multus":         {CommonName: "multus"},
		"router":         {CommonName: "kube-router"},
	} {
		if err := ca.Sign(name, subject); err != nil {
			return err
		}
		if err := ca.Kubeconfig(name, apiServer); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) etcdArgs() []string {
	return []string{
		c.tool("etcd"), "--data-dir=" + filepath.Join(c.opts.Dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
	}
}

func (c *Cluster) apiserverArgs() []string {
	p := c.pki.Path
	return []string{
		c.tool("kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", "--advertise-address=" + controlIP,
		"--secure-port=6443", "--service-cluster-ip-range=" + ServiceCIDR, "--allow-privileged=true",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--profiling=false",
		"--client-ca-file=" + p("ca.crt"), "--tls-cert-file=" + p("apiserver.crt"), "--tls-private-key-file=" + p("apiserver.key"),
		"--kubelet-client-certificate=" + p("kubelet-client.crt"), "--kubelet-client-key=" + p("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-key-file=" + p("sa.pub"), "--service-account-signing-key-file=" + p("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--requestheader-client-ca-file=" + p("ca.crt"), "--requestheader-allowed-names=front-proxy",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + p("front-proxy.crt"), "--proxy-client-key-file=" + p("front-proxy.key"),
	}
}

func (c *Cluster) controllerManagerArgs() []string {
	p := c.pki.Path
	kubeconfig := p("kcm.kubeconfig")
	return []string{
		c.tool("kube-controller-manager"), "--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--leader-elect=false",
		"--use-service-account-credentials=true", "--service-account-private-key-file=" + p("sa.key"),
		"--root-ca-file=" + p("ca.crt"), "--cluster-signing-cert-file=" + p("ca.crt"), "--cluster-signing-key-file=" + p("ca.key"),
		// Nodes die in seconds here, not in a minute.
		"--node-monitor-period=2s", "--node-monitor-grace-period=16s",
	}
}

func (c *Cluster) schedulerArgs() []string {
	kubeconfig := c.pki.Path("scheduler.kubeconfig")
	return []string{
		c.tool("kube-scheduler"), "--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--leader-elect=false",
	}
}

// manifests are what every cluster of the lab has: the rights of Multus and
// kube-router, and the NetworkAttachmentDefinition's resource.
var manifests = fmt.Sprintf(`%s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: multus}
rules:
- {apiGroups: [k8s.cni.cncf.io], resources: ["*"], verbs: ["*"]}
- {apiGroups: [""], resources: [pods, pods/status], verbs: [get, update, list, watch, patch]}
- {apiGroups: ["", events.k8s.io], resources: [events], verbs: [create, patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: multus}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: multus}
subjects: [{kind: User, name: multus, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kube-router}
rules:
- {apiGroups: [""], resources: [namespaces, pods, services, nodes, endpoints], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
- {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kube-router}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kube-router}
subjects: [{kind: User, name: kube-router, apiGroup: rbac.authorization.k8s.io}]
`, nadCRD)
