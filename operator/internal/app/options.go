package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"

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
	flags := flag.NewFlagSet("operator serve", flag.ContinueOnError)
	// The help names each flag's variable.
	text := func(p *string, name, env, fallback, usage string) {
		if v, ok := lookup(env); ok && v != "" {
			fallback = v
		}
		flags.StringVar(p, name, fallback, usage+" ($"+env+")")
	}
	text(&o.Namespace, "namespace", "POD_NAMESPACE", "oooi-system", "namespace that the operator runs in")
	text(&o.Kubeconfig, "kubeconfig", "OOOI_KUBECONFIG", "", "kubeconfig file; default the pod's own account")
	boolean := boolFlags{flags: flags, lookup: lookup}
	boolean.add(&o.OpenShift, "enable-openshift", "OOOI_ENABLE_OPENSHIFT", false, "bind SecurityContextConstraints to the pods")
	text((*string)(&o.SCC), "scc", "OOOI_SCC", string(render.SCCReference), "reference or minimal")
	text((*string)(&o.Fence), "fence", "OOOI_FENCE", string(workload.FenceAuto), "auto, on or off")
	boolean.add(&o.LabelNamespaces, "label-namespaces", "OOOI_LABEL_NAMESPACES", true, "label the Infras' namespaces for the control planes' NetworkPolicy")
	text(&o.HubBindAddress, "hub-bind-address", "OOOI_HUB_BIND_ADDRESS", ":8443", "where agents are served")
	text(&o.HubAddress, "hub-address", "OOOI_HUB_ADDRESS", "", "what agents dial; default oooi-hub.<namespace>.svc:8443")
	text(&o.MetricsBindAddress, "metrics-bind-address", "OOOI_METRICS_BIND_ADDRESS", ":8080", "where metrics are served, 0 = nowhere")
	boolean.add(&o.MetricsSecure, "metrics-secure", "OOOI_METRICS_SECURE", true, "serve metrics by TLS to who may read them")
	text(&o.HealthProbeBindAddress, "health-probe-bind-address", "OOOI_HEALTH_PROBE_BIND_ADDRESS", ":8081", "where probes are answered")
	text((*string)(&o.LeaderElect), "leader-elect", "OOOI_LEADER_ELECT", string(LeaderLease), "lease, life or off")
	var level string
	text(&level, "log-level", "OOOI_LOG_LEVEL", "info", "debug, info, warn or error")
	if boolean.err != nil {
		return o, boolean.err
	}
	if err := parse(flags, args, stdout); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var logLevel slog.Level
	if err := logLevel.UnmarshalText([]byte(level)); err != nil {
		return o, fmt.Errorf("--log-level: %w", err)
	}
	o.Logger = slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: logLevel}))
	o.setDefaults()
	return o, o.Validate()
}

// boolFlags gives boolean flags a default from the environment.
type boolFlags struct {
	flags  *flag.FlagSet
	lookup func(string) (string, bool)
	err    error
}

func (b *boolFlags) add(p *bool, name, env string, fallback bool, usage string) {
	if v, ok := b.lookup(env); ok && v != "" {
		parsed, err := strconv.ParseBool(v)
		if err != nil && b.err == nil {
			b.err = fmt.Errorf("%s: %q is neither true nor false", env, v)
		}
		fallback = parsed
	}
	b.flags.BoolVar(p, name, fallback, usage+" ($"+env+")")
}

func (o *Options) setDefaults() {
	if o.Registry == nil {
		o.Registry = metrics.Registry
	}
	if o.HubAddress == "" {
		o.HubAddress = net.JoinHostPort("oooi-hub."+o.Namespace+".svc", "8443")
	}
}

// Validate says everything that is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	switch o.SCC {
	case render.SCCReference, render.SCCMinimal:
	default:
		errs = append(errs, fmt.Errorf("--scc: %q is neither reference nor minimal", o.SCC))
	}
	switch o.Fence {
	case workload.FenceAuto, workload.FenceOn, workload.FenceOff:
	default:
		errs = append(errs, fmt.Errorf("--fence: %q is none of auto, on, off", o.Fence))
	}
	switch o.LeaderElect {
	case LeaderLease, LeaderLife, LeaderOff:
	default:
		errs = append(errs, fmt.Errorf("--leader-elect: %q is none of lease, life, off", o.LeaderElect))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("--namespace: must not be empty"))
	}
	if _, _, err := net.SplitHostPort(o.HubAddress); err != nil {
		errs = append(errs, fmt.Errorf("--hub-address: %w", err))
	}
	return errors.Join(errs...)
}

// VersionLine is what --version prints.
func VersionLine() string { return "oooi-operator " + Version + " contract " + agent.Contract }
