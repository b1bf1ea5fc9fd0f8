package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// bootFlags adds the options that Envoy's bootstrap is made from.
func (o *Options) bootFlags(f flags) {
	f.text(&o.Child, "child", "OOOI_CHILD", "", "own ProxyServer, `NAMESPACE/NAME`; empty = no status and no stream", resource)
	f.text(&o.PodIP, "pod-ip", "POD_IP", "", "`IP` of the pod side; empty = VLAN side alone", hostIPv4)
	f.text(&o.XDSSocket, "xds-socket", "OOOI_XDS_SOCKET", "/run/oooi/xds.sock", "`PATH` of the unix socket that Envoy dials", nil)
	f.text(&o.AdminSocket, "admin-socket", "OOOI_ADMIN_SOCKET", "/run/oooi/admin.sock", "`PATH` of Envoy's administration; empty = never asked", nil)
}

// sockets says what is wrong with the paths. Empty is a value of one of them.
func (o *Options) sockets() error {
	if o.XDSSocket == "" {
		return errors.New("--xds-socket must not be empty")
	}
	for _, s := range [][2]string{{"--xds-socket", o.XDSSocket}, {"--admin-socket", o.AdminSocket}} {
		if len(s[1]) > maxSocket {
			return fmt.Errorf("%s %q: want a path of at most %d bytes", s[0], s[1], maxSocket)
		}
	}
	return nil
}

// maxSocket is what Linux takes as the path of a unix socket.
const maxSocket = 107

// longest is what a drain may take: a day of it is surely meant otherwise.
const longest = 24 * time.Hour

// serveFlags adds all options of "serve".
func (o *Options) serveFlags(f flags) {
	o.bootFlags(f)
	f.text(&o.Snapshot, "snapshot", "OOOI_SNAPSHOT", "", "snapshot `FILE`, plain or gzipped protojson", nil)
	f.text(&o.Hub, "hub", "OOOI_HUB", "", "operator's stream, `HOST:PORT`; empty = none", dialAddress)
	f.text(&o.HubCA, "hub-ca", "OOOI_HUB_CA", "/etc/oooi/ca.crt", "PEM `FILE` that the stream's certificate is checked with", nil)
	f.text(&o.Token, "token", "OOOI_TOKEN", "/var/run/secrets/oooi/token", "`FILE` with the ServiceAccount token for the stream", nil)
	f.text(&o.Kubeconfig, "kubeconfig", "OOOI_KUBECONFIG", "", "kubeconfig `FILE`; empty = the pod's account", nil)
	f.text(&o.StateDir, "state-dir", "OOOI_STATE_DIR", "", "`DIR` where the last good snapshot and the endpoints' addresses are kept", nil)
	f.text(&o.Listen, "listen", "OOOI_LISTEN", "", "health and metrics, `IP:PORT`; empty = none", listenAddress)
	f.text(&o.Fence, "fence", "OOOI_FENCE", "off", "`on|off`; on = an init container fences the pod's network", onOrOff)
	f.duration(&o.DrainTime, "drain-time", "OOOI_DRAIN_TIME", 600*time.Second, time.Second, "Envoy's --drain-time-s, a `DURATION`")
	f.duration(&o.DrainWait, "drain-wait", "OOOI_DRAIN_WAIT", 5*time.Second, 0, "how long the end waits for open connections, a `DURATION`")
}

// ParseOptions reads the options of "serve".
func ParseOptions(args []string, env Lookup, stdout io.Writer) (Options, error) {
	var o Options
	f := newFlags("serve")
	o.serveFlags(f)
	if err := parse(f.FlagSet, args, stdout, "serve [flags]"); err != nil {
		return Options{}, err
	}
	if f.NArg() > 0 {
		return Options{}, usage("serve: unknown argument %q", f.Arg(0))
	}
	err := f.environment(env)
	if err == nil {
		err = o.whole()
	}
	if err != nil {
		return Options{}, usage("serve: %w", err)
	}
	return o, nil
}

// whole says what no flag can say alone. Each value is good by itself.
func (o *Options) whole() error {
	if err := o.sockets(); err != nil {
		return err
	}
	if o.Snapshot == "" && o.Hub == "" {
		return errors.New("nothing to serve: give --snapshot or --hub")
	}
	if o.Hub == "" {
		return nil
	}
	return needs("--hub", [][2]string{{"--child", o.Child}, {"--hub-ca", o.HubCA}, {"--token", o.Token}})
}

func (o Options) child() (namespace, name string, ok bool) {
	return strings.Cut(o.Child, "/")
}

// NodeID is what Envoy calls itself: the child's name, or a fixed one where
// there is no cluster.
func (o Options) NodeID() string {
	if o.Child == "" {
		return xds.Standalone
	}
	return o.Child
}
