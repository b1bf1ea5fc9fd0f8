package oooi

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"

	"github.com/densityops/oooi/corednsplugin/internal/agent"
	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// Corefile is the configuration that our own CoreDNS uses where it is given
// none: the same text for a pod and for a plain daemon.
//
//go:embed Corefile
var Corefile string

// What the Corefile takes from the environment and has to have.
const (
	envSnapshot = "OOOI_SNAPSHOT"
	envServerIP = "OOOI_SERVER_IP"
	envPodIP    = "POD_IP"
	envPort     = "OOOI_DNS_PORT"
	envStateDir = "OOOI_STATE_DIR"
)

// dnsPort is where a DNS server is found, unless it is told otherwise.
const dnsPort = 53

// The other variables that are looked at before anything starts.
const (
	envHub   = "OOOI_HUB"
	envHubCA = "OOOI_HUB_CA"
	envToken = "OOOI_TOKEN"
	envChild = "OOOI_CHILD"
	envFence = "OOOI_FENCE"
)

// CheckValue says what is wrong with the value of a variable; empty is none.
func CheckValue(variable, value string) error {
	check := map[string]func(string) error{
		envHub: dialAddress, envChild: resource, envServerIP: hostIPv4, envPodIP: hostIPv4, envFence: onOrOff, envPort: portNumber,
	}[variable]
	if check == nil || value == "" {
		return nil
	}
	return check(value)
}

// CheckEnvironment says what is missing for the built-in Corefile.
func CheckEnvironment(get func(string) string) error {
	switch hub, known := get(envHub) != "", get(envSnapshot) != "" || get(envStateDir) != ""; {
	case !known && !hub:
		return errors.New("nothing to serve: give --snapshot or --hub")
	case !known && get(envServerIP) == "":
		return errors.New("--hub needs --server-ip where there is neither --snapshot nor --state-dir: " + errServerIP.Error())
	case !hub:
		return nil
	}
	return needs("--hub", [][2]string{{"--child", get(envChild)}, {"--hub-ca", get(envHubCA)}, {"--token", get(envToken)}})
}

// errServerIP is returned where nothing names our address on the VLAN.
var errServerIP = errors.New("neither OOOI_SERVER_IP nor a snapshot names the server's address")

// Environment completes what the Corefile needs: port 53, the server's address
// from the snapshot file, and loopback for the pod side of a plain daemon. What
// is set already stays.
func Environment(get func(string) string, set func(string, string) error) error {
	defaults := map[string]string{envPort: strconv.Itoa(dnsPort), envPodIP: "127.0.0.1"}
	if get(envServerIP) == "" {
		// The kept copy counts too: a file that is broken must not keep a server
		// down that has a good one.
		known := agent.New(agent.Options{File: get(envSnapshot), StateDir: get(envStateDir)}).Load()
		if known.Config == nil {
			err := errServerIP
			for _, p := range known.Problems {
				err = fmt.Errorf("%w (%s)", err, p.Message)
			}
			return err
		}
		defaults[envServerIP] = known.Config.ServerIP.String()
	}
	for name, value := range defaults {
		if get(name) == "" {
			if err := set(name, value); err != nil {
				return fmt.Errorf("setting %s: %w", name, err)
			}
		}
	}
	return nil
}

// load reads a file as somebody who wrote it by hand wants it read: nothing in it
// is passed over.
func load(file string) (snapshot.Config, error) {
	data, err := agent.ReadFile(file)
	if err != nil {
		return snapshot.Config{}, err
	}
	s, err := snapshot.DecodeStrict(data)
	if err != nil {
		return snapshot.Config{}, fmt.Errorf("%s: %w", file, err)
	}
	c, err := snapshot.Parse(s)
	if err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// Check validates a snapshot file and tells what it holds. It fails for a file
// that cannot be served or that has problems.
func Check(file string, out io.Writer) error {
	c, err := load(file)
	if err != nil {
		return err
	}
	problems := snapshot.SortProblems(append(c.Problems, ownUpstreams(c)...))
	for _, p := range problems {
		if _, err := fmt.Fprintf(out, "%s: %s\n", p.Reason, p.Message); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s: not all of it can be served", file)
	}
	_, err = fmt.Fprintf(out, "%s: %d names, version %s\n", file, names(&c), c.Version)
	return err
}

// ownUpstreams is what a server would find out when it starts: that it is its own
// upstream. What the node's resolv.conf names is left to it.
func ownUpstreams(c snapshot.Config) []snapshot.Problem {
	named := c
	named.Upstreams = slices.DeleteFunc(slices.Clone(c.Upstreams), func(u snapshot.Upstream) bool { return u.Node })
	_, problems := resolvers(&named, nil, append([]netip.Addr{c.ServerIP}, c.Own...), dnsPort)
	if len(named.Upstreams) < len(c.Upstreams) {
		problems = slices.DeleteFunc(problems, func(p snapshot.Problem) bool { return p.Reason == ReasonNoUpstreams })
	}
	return problems
}
