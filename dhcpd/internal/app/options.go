package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"
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
	fs := flag.NewFlagSet("dhcpd serve", flag.ContinueOnError)
	var child, fence, level string
	type variable struct{ name, env string }
	var known []variable
	add := func(p *string, name, variableName, value, usage string) {
		fs.StringVar(p, name, value, usage+" ("+variableName+")")
		known = append(known, variable{name, variableName})
	}
	add(&o.Snapshot, "snapshot", "OOOI_SNAPSHOT", "", "snapshot `FILE`, re-read when it changes")
	add(&o.Hub, "hub", "OOOI_HUB", "", "operator's `HOST:PORT`; empty = no stream")
	add(&o.HubCA, "hub-ca", "OOOI_HUB_CA", "/etc/oooi/ca.crt", "PEM `FILE` with the operator's CA")
	add(&o.Token, "token", "OOOI_TOKEN", "/var/run/secrets/oooi/token", "ServiceAccount token `FILE`")
	add(&child, "child", "OOOI_CHILD", "", "own resource as `NAMESPACE/NAME`; empty = no status and no stream")
	add(&o.Kubeconfig, "kubeconfig", "OOOI_KUBECONFIG", "", "`FILE` with access to the API server; empty = in-cluster, if there is one")
	add(&o.StateDir, "state-dir", "OOOI_STATE_DIR", "", "`DIR` for the lease journal; empty = leases die with the process")
	add(&o.Listen, "listen", "OOOI_LISTEN", "", "`ADDR` of health and metrics; empty = none")
	add(&o.PodIP, "pod-ip", "POD_IP", "", "the pod's own `IP`")
	add(&o.PodUID, "pod-uid", "POD_UID", "", "the pod's `UID`, which holds the coordination Lease; empty = one kept in the state directory")
	add(&o.Lease, "lease", "OOOI_LEASE", "", "coordination Lease `NAME` beside the resource; empty = the resource's name, ending in -dhcp")
	add(&fence, "fence", "OOOI_FENCE", "", "`on|off`: whether the fence runs in this pod; off = look at forwarding instead")
	add(&o.Objects, "objects", "OOOI_OBJECTS", "", "`DIR` with virtual machines as YAML, instead of a cluster")
	add(&level, "log-level", "OOOI_LOG_LEVEL", "info", "`LEVEL`: debug, info, warn or error")
	if code, done := parse(fs, args, "dhcpd serve [flags]", stdout, stderr); done {
		return o, code
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, v := range known {
		if value, ok := env(v.env); ok && !given[v.name] {
			_ = fs.Set(v.name, value) // strings take anything
		}
	}
	if err := o.finish(child, fence, level, fs.Args()); err != nil {
		fmt.Fprintln(stderr, err)
		return o, misused
	}
	return o, -1
}

// finish checks what flag cannot.
func (o *Options) finish(child, fence, level string, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	if err := o.setChild(child); err != nil {
		return err
	}
	var err error
	if o.Fence, err = parseFence(fence); err != nil {
		return err
	}
	if err := o.LogLevel.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	switch {
	case o.Snapshot == "" && o.Hub == "":
		return errors.New("nothing to serve: give --snapshot or --hub")
	case o.Hub != "" && o.Name == "":
		return errors.New("--hub needs --child")
	}
	return nil
}

// setChild takes the resource, and from it the Lease that is not given.
func (o *Options) setChild(child string) error {
	if child != "" {
		ns, name, ok := strings.Cut(child, "/")
		if !ok || ns == "" || name == "" {
			return fmt.Errorf("--child %q: want NAMESPACE/NAME", child)
		}
		o.Namespace, o.Name = ns, name
	}
	if o.Lease == "" {
		o.Lease = leaseName(o.Name)
	}
	return nil
}

func parseFence(s string) (bool, error) {
	switch s {
	case "", "on":
		return true, nil
	case "off":
		return false, nil
	}
	fenced, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("--fence %q: want on or off", s)
	}
	return fenced, nil
}

// leaseName is what the operator calls the objects of a DHCPServer.
func leaseName(child string) string {
	if child == "" || strings.HasSuffix(child, "-dhcp") {
		return child
	}
	return child + "-dhcp"
}
