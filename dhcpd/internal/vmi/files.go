package vmi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/dhcpd/internal/config"
)

// filePoll is how often the directory is looked at.
const filePoll = 500 * time.Millisecond

// Files reads machines from the YAML files of a directory, for places without
// a cluster.
type Files struct {
	Dir string
	Log *slog.Logger
}

// Run calls set with an index of the directory's machines now and whenever the
// files or the configuration change, until ctx ends.
func (f Files) Run(ctx context.Context, configs <-chan *config.Config, set func(*Index)) error {
	var cfg *config.Config
	const never = "never"
	last := never
	t := time.NewTicker(filePoll)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case cfg = <-configs:
			last = never
		case <-t.C:
		}
		if cfg == nil {
			continue
		}
		mark, err := f.mark()
		if err != nil {
			mark = "error: " + err.Error()
		}
		if mark == last {
			continue
		}
		last = mark
		x, err := f.index(cfg)
		if err != nil {
			f.Log.Error("virtual machines cannot be read", "err", err)
			continue
		}
		set(x)
	}
}

// paths lists the files in order.
func (f Files) paths() ([]string, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var out []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			out = append(out, filepath.Join(f.Dir, e.Name()))
		}
	}
	slices.Sort(out)
	return out, nil
}

// mark changes whenever a file does.
func (f Files) mark() (string, error) {
	paths, err := f.paths()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range paths {
		if i, err := os.Stat(p); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", p, i.Size(), i.ModTime().UnixNano())
		}
	}
	return b.String(), nil
}

func (f Files) index(cfg *config.Config) (*Index, error) {
	paths, err := f.paths()
	if err != nil {
		return nil, err
	}
	flt := newFilter(cfg)
	var machines []machine
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("reading machines: %w", err)
		}
		m, err := flt.parse(b)
		if err != nil {
			return nil, fmt.Errorf("parsing %s: %w", p, err)
		}
		machines = append(machines, m...)
	}
	if n := cfg.Namespaces; len(n) > 0 && n[0] != "*" {
		machines = slices.DeleteFunc(machines, func(m machine) bool { return !slices.Contains(n, m.namespace) })
	}
	return build(machines, map[string]bool{"*": true}), nil
}

// parse reads the documents of one file, or one `kind: List`.
func (f filter) parse(b []byte) ([]machine, error) {
	var out []machine
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(b)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		m, err := f.object(doc)
		if err != nil {
			return nil, err
		}
		out = append(out, m...)
	}
}

func (f filter) object(doc []byte) ([]machine, error) {
	var head struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return nil, err
	}
	switch head.Kind {
	case "VirtualMachineInstance":
		var v kubevirtv1.VirtualMachineInstance
		if err := yaml.Unmarshal(doc, &v); err != nil {
			return nil, err
		}
		return []machine{f.fromVMI(&v)}, nil
	case "VirtualMachine":
		var v kubevirtv1.VirtualMachine
		if err := yaml.Unmarshal(doc, &v); err != nil {
			return nil, err
		}
		return []machine{f.fromVM(&v)}, nil
	}
	var out []machine
	for _, i := range head.Items {
		m, err := f.object(i)
		if err != nil {
			return nil, err
		}
		out = append(out, m...)
	}
	return out, nil
}
