package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/controller/workload"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/images"
	"github.com/densityops/oooi/operator/internal/render"
)

// Version of the module; the release build sets it.
var Version = "v0.1.0"

// LeaderMode is a value of --leader-elect.
type LeaderMode string

// The leader modes: a Lease that is renewed, leader-for-life (an object that
// dies with the leader's pod), or none.
const (
	LeaderLease LeaderMode = "lease"
	LeaderLife  LeaderMode = "life"
	LeaderOff   LeaderMode = "off"
)

// Options are what the operator is started with.
type Options struct {
	// Namespace that the operator runs in.
	Namespace  string
	Kubeconfig string

	OpenShift       bool
	SCC             render.SCC
	Fence           workload.FenceMode
	LabelNamespaces bool

	HubBindAddress string
	// HubAddress is what agents dial; default the Service oooi-hub.
	HubAddress             string
	MetricsBindAddress     string
	MetricsSecure          bool
	HealthProbeBindAddress string
	LeaderElect            LeaderMode

	Images images.Set
	Logger *slog.Logger
	// DialHosted reaches the hosted clusters; nil is the usual way.
	DialHosted hosted.Dialer
	// Registry of metrics; default the process's.
	Registry prometheus.Registerer
}

// ErrHelp says that only the usage was asked for, ErrUsage that a command line
// cannot be understood.
var (
	ErrHelp  = flag.ErrHelp
	ErrUsage = errors.New("see --help")
)

// usageError makes an error one of the command line; help stays what it is.
func usageError(err error) error {
	if err == nil || errors.Is(err, ErrHelp) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, ErrUsage)
}

// parse reads flags. The usage goes to output, when it is asked for.
func parse(flags *flag.FlagSet, args []string, output io.Writer) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	if errors.Is(err, ErrHelp) {
		flags.SetOutput(output)
		flags.Usage()
	}
	return err
}

// ParseOptions reads the flags, and OOOI_... variables for flags that are not
// given. The usage goes to stdout, what the operator logs to stderr.
func ParseOptions(args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) (Options, error) {
	o, err := parseOptions(args, lookup, stdout, stderr)
	return o, usageError(err)
}

func parseOptions(args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) (Options, error) {
	o := Options{Images: images.For(lookup)}
	f := newFlags("operator serve")
	var level string
	o.addFlags(f)
	f.text(&level, "log-level", "OOOI_LOG_LEVEL", "info", "debug, info, warn or error", logLevel)
	if err := parse(f.FlagSet, args, stdout); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err := f.environment(lookup); err != nil {
		return o, err
	}
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return o, fmt.Errorf("--log-level: %w", err)
	}
	o.Logger = slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: least}))
	o.setDefaults()
	return o, nil
}

func (o *Options) addFlags(f flags) {
	f.text(&o.Namespace, "namespace", "POD_NAMESPACE", "oooi-system", "namespace that the operator runs in", namespaceName)
	f.text(&o.Kubeconfig, "kubeconfig", "OOOI_KUBECONFIG", "", "kubeconfig file; default the pod's own account", nil)
	f.truth(&o.OpenShift, "enable-openshift", "OOOI_ENABLE_OPENSHIFT", false, "bind SecurityContextConstraints to the pods")
	f.text((*string)(&o.SCC), "scc", "OOOI_SCC", string(render.SCCReference), "reference or minimal", sccName)
	f.text((*string)(&o.Fence), "fence", "OOOI_FENCE", string(workload.FenceAuto), "auto, on or off", fenceName)
	f.truth(&o.LabelNamespaces, "label-namespaces", "OOOI_LABEL_NAMESPACES", true, "label the Infras' namespaces for the control planes' NetworkPolicy")
	f.text(&o.HubBindAddress, "hub-bind-address", "OOOI_HUB_BIND_ADDRESS", ":8443", "where agents are served", listenAddress)
	f.text(&o.HubAddress, "hub-address", "OOOI_HUB_ADDRESS", "", "what agents dial; default oooi-hub.<namespace>.svc:8443", dialOrNone)
	f.text(&o.MetricsBindAddress, "metrics-bind-address", "OOOI_METRICS_BIND_ADDRESS", ":8080", "where metrics are served, 0 = nowhere", listenOrNot)
	f.truth(&o.MetricsSecure, "metrics-secure", "OOOI_METRICS_SECURE", true, "serve metrics by TLS to who may read them")
	f.text(&o.HealthProbeBindAddress, "health-probe-bind-address", "OOOI_HEALTH_PROBE_BIND_ADDRESS", ":8081", "where probes are answered, 0 = nowhere", listenOrNot)
	f.text((*string)(&o.LeaderElect), "leader-elect", "OOOI_LEADER_ELECT", string(LeaderLease), "lease, life or off",
		oneOf(string(LeaderLease), string(LeaderLife), string(LeaderOff)))
}

// What several commands take.
var (
	sccName   = oneOf(string(render.SCCReference), string(render.SCCMinimal))
	fenceName = oneOf(string(workload.FenceAuto), string(workload.FenceOn), string(workload.FenceOff))
	anyLevel  = oneOf("debug", "info", "warn", "error")
)

func logLevel(s string) error { return anyLevel(strings.ToLower(s)) }

// dialOrNone takes nothing too, where there is a default.
func dialOrNone(s string) error {
	if s == "" {
		return nil
	}
	return dialAddress(s)
}

func (o *Options) setDefaults() {
	if o.Registry == nil {
		o.Registry = metrics.Registry
	}
	if o.HubAddress == "" {
		o.HubAddress = net.JoinHostPort("oooi-hub."+o.Namespace+".svc", "8443")
	}
}

// VersionLine is what --version prints.
func VersionLine() string { return "operator " + Version + " contract " + agent.Contract }
