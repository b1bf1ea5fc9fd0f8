package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Options are the flags of `dhcpd serve`.
type Options struct {
	Snapshot   string
	Hub        string
	HubCA      string
	Token      string
	Namespace  string // of the child
	Name       string
	Kubeconfig string
	StateDir   string
	Listen     string
	PodIP      string
	PodUID     string
	Lease      string
	Fence      bool
	Objects    string
	LogLevel   slog.Level
}

// ParseOptions reads flags, and the environment for those that are not given.
// If that is the end of it, it has said why, and what to return is not
// negative.
func ParseOptions(args []string, env func(string) (string, bool), stdout, stderr io.Writer) (Options, int) {
	var o Options
	var child, fence, level string
	f := newFlags("dhcpd serve")
	f.text(&o.Snapshot, "snapshot", "OOOI_SNAPSHOT", "", "snapshot `FILE`, re-read when it changes", nil)
	f.text(&o.Hub, "hub", "OOOI_HUB", "", "operator's `HOST:PORT`; empty = no stream", dialAddress)
	f.text(&o.HubCA, "hub-ca", "OOOI_HUB_CA", "/etc/oooi/ca.crt", "PEM `FILE` with the operator's CA", nil)
	f.text(&o.Token, "token", "OOOI_TOKEN", "/var/run/secrets/oooi/token", "ServiceAccount token `FILE`", nil)
	f.text(&child, "child", "OOOI_CHILD", "", "own resource as `NAMESPACE/NAME`; empty = no status and no stream", resource)
	f.text(&o.Kubeconfig, "kubeconfig", "OOOI_KUBECONFIG", "", "`FILE` with access to the API server; empty = in-cluster, if there is one", nil)
	f.text(&o.StateDir, "state-dir", "OOOI_STATE_DIR", "", "`DIR` for the lease journal; empty = leases die with the process", nil)
	f.text(&o.Listen, "listen", "OOOI_LISTEN", "", "`IP:PORT` of health and metrics; empty = none", listenAddress)
	f.text(&o.PodIP, "pod-ip", "POD_IP", "", "the pod's own `IP`", hostIPv4)
	f.text(&o.PodUID, "pod-uid", "POD_UID", "", "the pod's `UID`, which holds the coordination Lease; empty = one kept in the state directory", nil)
	f.text(&o.Lease, "lease", "OOOI_LEASE", "", "coordination Lease `NAME` beside the resource; empty = the resource's name, ending in -dhcp", leaseNamed)
	f.text(&fence, "fence", "OOOI_FENCE", "on", "`on|off`: whether the fence runs in this pod; off = look at forwarding instead", onOrOff)
	f.text(&o.Objects, "objects", "OOOI_OBJECTS", "", "`DIR` with virtual machines as YAML, instead of a cluster", nil)
	f.text(&level, "log-level", "OOOI_LOG_LEVEL", "info", "`LEVEL`: debug, info, warn or error", logLevel)
	if code, done := parse(f.FlagSet, args, "dhcpd serve [flags]", stdout, stderr); done {
		return o, code
	}
	err := f.environment(env)
	if err == nil {
		err = o.finish(child, fence, level, f.Args())
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return o, misused
	}
	return o, -1
}

// finish checks what no flag can say alone. Each value is good by itself.
func (o *Options) finish(child, fence, level string, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	o.Namespace, o.Name, _ = strings.Cut(child, "/")
	if o.Lease == "" {
		o.Lease = leaseName(o.Name)
	}
	o.Fence = fence == "on"
	if err := o.LogLevel.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	if o.Snapshot == "" && o.Hub == "" {
		return errors.New("nothing to serve: give --snapshot or --hub")
	}
	if o.Hub == "" {
		return nil
	}
	return needs("--hub", [][2]string{{"--child", child}, {"--hub-ca", o.HubCA}, {"--token", o.Token}})
}

// leaseName is what the operator calls the objects of a DHCPServer.
func leaseName(child string) string {
	if child == "" || strings.HasSuffix(child, "-dhcp") {
		return child
	}
	return child + "-dhcp"
}
