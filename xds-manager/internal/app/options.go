package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/densityops/oooi/xds-manager/internal/xds"
)

// Options configure a manager.
type Options struct {
	Snapshot    string
	Hub         string
	HubCA       string
	Token       string
	Child       string
	Kubeconfig  string
	StateDir    string
	Listen      string
	PodIP       string
	Fence       string
	XDSSocket   string
	AdminSocket string
	DrainTime   time.Duration
	DrainWait   time.Duration
	Logger      *slog.Logger
	// Module is the module's version.
	Module string
}

// Lookup finds an environment variable.
type Lookup func(string) (string, bool)

// text adds a flag whose default the environment gives, so that a flag beats it.
func text(fs *flag.FlagSet, env Lookup, p *string, name, key, def, usage string) {
	if v, ok := env(key); ok {
		def = v
	}
	fs.StringVar(p, name, def, usage+" ($"+key+")")
}

// bootFlags adds the options that Envoy's bootstrap is made from.
func (o *Options) bootFlags(fs *flag.FlagSet, env Lookup) {
	text(fs, env, &o.Child, "child", "OOOI_CHILD", "", "own ProxyServer, NAMESPACE/NAME; empty = no status and no stream")
	text(fs, env, &o.PodIP, "pod-ip", "POD_IP", "", "address of the pod side; empty = VLAN side alone")
	text(fs, env, &o.XDSSocket, "xds-socket", "OOOI_XDS_SOCKET", "/run/oooi/xds.sock", "unix socket that Envoy dials")
	text(fs, env, &o.AdminSocket, "admin-socket", "OOOI_ADMIN_SOCKET", "/run/oooi/admin.sock", "Envoy's administration; empty = never asked")
}

// Flags adds all options of "serve".
func (o *Options) Flags(fs *flag.FlagSet, env Lookup) {
	o.bootFlags(fs, env)
	text(fs, env, &o.Snapshot, "snapshot", "OOOI_SNAPSHOT", "", "snapshot file, plain or gzipped protojson")
	text(fs, env, &o.Hub, "hub", "OOOI_HUB", "", "operator's stream, HOST:PORT")
	text(fs, env, &o.HubCA, "hub-ca", "OOOI_HUB_CA", "/etc/oooi/ca.crt", "PEM bundle that the stream's certificate is checked with")
	text(fs, env, &o.Token, "token", "OOOI_TOKEN", "/var/run/secrets/oooi/token", "ServiceAccount token for the stream")
	text(fs, env, &o.Kubeconfig, "kubeconfig", "OOOI_KUBECONFIG", "", "kubeconfig; empty = the pod's account")
	text(fs, env, &o.StateDir, "state-dir", "OOOI_STATE_DIR", "", "where the last good snapshot is kept")
	text(fs, env, &o.Listen, "listen", "OOOI_LISTEN", "", "health and metrics, IP:PORT; empty = none")
	text(fs, env, &o.Fence, "fence", "OOOI_FENCE", "off", "on = an init container fences the pod's network")
	dur := func(p *time.Duration, name, key string, def time.Duration, usage string) {
		*p = def
		if v, ok := env(key); ok {
			if d, err := time.ParseDuration(v); err == nil {
				*p = d
			} else {
				// An unreadable value must not pass for the default: Validate refuses it.
				*p = -1
			}
		}
		fs.DurationVar(p, name, *p, usage+" ($"+key+")")
	}
	dur(&o.DrainTime, "drain-time", "OOOI_DRAIN_TIME", 600*time.Second, "Envoy's --drain-time-s")
	dur(&o.DrainWait, "drain-wait", "OOOI_DRAIN_WAIT", 5*time.Second, "how long the end waits for open connections")
}

// ParseOptions reads the options of "serve".
func ParseOptions(args []string, env Lookup, stdout io.Writer) (Options, error) {
	var o Options
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	o.Flags(fs, env)
	if err := parse(fs, args, stdout, "serve [flags]"); err != nil {
		return Options{}, err
	}
	if fs.NArg() > 0 {
		return Options{}, usage("serve: unknown argument %q", fs.Arg(0))
	}
	if err := o.Validate(); err != nil {
		return Options{}, usage("serve: %w", err)
	}
	return o, nil
}

// Validate says what is wrong with the options, all of it.
func (o Options) Validate() error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(o.Snapshot == "" && o.Hub == "", "one of --snapshot and --hub is needed")
	if o.Hub != "" {
		_, _, err := net.SplitHostPort(o.Hub)
		wrong(err != nil, "--hub: %w", err)
		wrong(o.Child == "", "--hub needs --child")
	}
	_, _, ok := o.child()
	wrong(o.Child != "" && !ok, "--child %q is no NAMESPACE/NAME", o.Child)
	wrong(o.PodIP != "" && !isIPv4(o.PodIP), "--pod-ip %q is no IPv4 address", o.PodIP)
	_, err := netip.ParseAddrPort(o.Listen)
	wrong(o.Listen != "" && err != nil, "--listen %q is no IP:PORT", o.Listen)
	wrong(o.Fence != "on" && o.Fence != "off", "--fence %q is neither on nor off", o.Fence)
	wrong(o.XDSSocket == "", "--xds-socket is needed")
	wrong(o.DrainTime <= 0 || o.DrainWait < 0, "--drain-time must be a positive duration, --drain-wait none below zero")
	return errors.Join(errs...)
}

func isIPv4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

func (o Options) child() (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(o.Child, "/")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// NodeID is what Envoy calls itself: the child's name, or a fixed one where
// there is no cluster.
func (o Options) NodeID() string {
	if o.Child == "" {
		return xds.Standalone
	}
	return o.Child
}
