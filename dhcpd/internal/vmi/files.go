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
	"github.com/densityops/oooi/dhcpd/internal/regular"
)

const (
	// filePoll is how often the directory is looked at.
	filePoll = 500 * time.Millisecond
	// maxFile bounds one file: some thousand machines.
	maxFile = 16 << 20
)

// Files reads machines from the YAML files of a directory, for places without
// a cluster.
type Files struct {
	Dir string
	Log *slog.Logger
}

// Check says whether there is such a directory.
func (f Files) Check() error {
	_, err := f.paths()
	return err
}

// Run calls set with an index of the directory's machines now and whenever the
// files or the configuration change, until ctx ends.
func (f Files) Run(ctx context.Context, configs <-chan *config.Config, set func(*Index)) error {
	t := time.NewTicker(filePoll)
	defer t.Stop()
	return newReader(f).run(ctx, t.C, configs, set)
}

func (r *reader) run(ctx context.Context, ticks <-chan time.Time, configs <-chan *config.Config, set func(*Index)) error {
	var cfg *config.Config
	const never = "never"
	last := never
	known := build(nil, nil, nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case cfg = <-configs:
			last = never
		case <-ticks:
		}
		if cfg == nil {
			continue
		}
		mark, err := r.mark()
		if err != nil {
			mark = failed(err)
		}
		if mark == last && !r.healed() {
			continue
		}
		last = mark
		x, err := r.index(cfg)
		if err != nil {
			last, r.shut = failed(err), nil
			r.Log.Error("virtual machines cannot be read; what is known counts", "err", err)
			x = known.without(err)
		}
		known = x
		set(x)
	}
}

// failed is the mark of a directory that cannot be listed.
func failed(err error) string { return "error: " + err.Error() }

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
			fmt.Fprintf(&b, "%s %s %d %d\n", p, i.Mode(), i.Size(), i.ModTime().UnixNano())
		}
	}
	return b.String(), nil
}

// reader makes indexes of a directory.
type reader struct {
	Files
	read func(path string, limit int64) ([]byte, error)
	good map[string][]byte // what each file said when it could be read last
	said map[string]string // what is wrong with a file
	shut map[string]string // of those, what could not even be read
}

func newReader(f Files) *reader {
	return &reader{Files: f, read: regular.Read, good: map[string][]byte{}, said: map[string]string{}}
}

// healed says whether a file that could not be read can be now, or fails in
// another way. Nothing that mark sees has to change for that: a disk works
// again, or the file has another owner.
func (r *reader) healed() bool {
	for p, said := range r.shut {
		if _, err := r.content(p); err == nil || err.Error() != said {
			return true
		}
	}
	return false
}

// index reads all files. Of one that cannot be read the last good content
// counts; without that nobody can say which machines do not exist.
func (r *reader) index(cfg *config.Config) (*Index, error) {
	paths, err := r.paths()
	if err != nil {
		return nil, err
	}
	flt := newFilter(cfg)
	var machines []machine
	var unreadable []string
	whole := map[string]bool{"*": true}
	good, said, shut := map[string][]byte{}, map[string]string{}, map[string]string{}
	for _, p := range paths {
		b, m, err := r.machines(p, flt)
		if err != nil {
			if b == nil {
				shut[p] = err.Error()
			}
			if said[p] = err.Error(); said[p] != r.said[p] {
				r.Log.Error("machines of a file cannot be read; what it said last counts", "err", err)
			}
			unreadable = append(unreadable, said[p])
			if b = r.good[p]; b == nil {
				whole = nil
				continue
			}
			m, _ = flt.parse(b) // it could be parsed before
		}
		good[p], machines = b, append(machines, m...)
	}
	r.good, r.said, r.shut = good, said, shut
	if n := cfg.Namespaces; len(n) > 0 && n[0] != "*" {
		machines = slices.DeleteFunc(machines, func(m machine) bool { return !slices.Contains(n, m.namespace) })
	}
	x := build(machines, whole, cfg.Namespaces)
	x.unreadable = unreadable
	return x, nil
}

// machines reads one file. With an error it returns what is in it, if that
// could be read.
func (r *reader) machines(path string, flt filter) ([]byte, []machine, error) {
	b, err := r.content(path)
	if err != nil {
		return nil, nil, err
	}
	m, err := flt.parse(b)
	if err != nil {
		return b, nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	return b, m, nil
}

func (r *reader) content(path string) ([]byte, error) {
	b, err := r.read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("reading machines: %w", err)
	}
	return b, nil
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
