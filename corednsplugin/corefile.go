package oooi

import (
	_ "embed"
	"errors"
	"fmt"
	"io"

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

// errServerIP is returned where nothing names our address on the VLAN.
var errServerIP = errors.New("neither OOOI_SERVER_IP nor a snapshot names the server's address")

// Environment completes what the Corefile needs: port 53, the server's address
// from the snapshot file, and loopback for the pod side of a plain daemon. What
// is set already stays.
func Environment(get func(string) string, set func(string, string) error) error {
	defaults := map[string]string{envPort: "53", envPodIP: "127.0.0.1"}
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
	for _, p := range c.Problems {
		if _, err := fmt.Fprintf(out, "%s: %s\n", p.Reason, p.Message); err != nil {
			return err
		}
	}
	if len(c.Problems) > 0 {
		return fmt.Errorf("%s: not all of it can be served", file)
	}
	_, err = fmt.Fprintf(out, "%s: %d names, version %s\n", file, names(&c), c.Version)
	return err
}
