package app

import (
	"bytes"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/densityops/oooi/operator/internal/images"
	"github.com/densityops/oooi/operator/internal/offline"
	"github.com/densityops/oooi/operator/internal/render"
)

// renderOptions are the flags of `operator render`.
type renderOptions struct {
	files  []string
	out    string
	hubCA  string
	strict bool
	offline.Options
}

// What a rendering may end with beside unreadable input: ErrProblems says that a
// strict plan leaves something out, ErrRefused that an API server would not take
// an object, ErrEmpty that there is nothing to plan.
var (
	ErrProblems = errors.New("the plan has problems")
	ErrRefused  = errors.New("an API server would refuse this")
	ErrEmpty    = errors.New("nothing to plan: no Infra, InfraClusterAttachment, DHCPServer, DNSServer or ProxyServer was read")
)

// Render is the subcommand that plans offline: objects in, children, workloads,
// snapshots and conditions out. What the plan refuses or warns of goes to stderr
// in words and is ErrProblems with --strict. Of input that cannot be read, and of
// an object that no API server would take (ErrRefused), nothing is written.
func Render(args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	o, err := parseRender(args, lookup, stdout)
	if err != nil {
		return usageError(err)
	}
	objects, err := o.read()
	if err != nil {
		return err
	}
	result, err := offline.Render(objects, o.Options)
	if err != nil {
		return fmt.Errorf("rendering: %w", err)
	}
	tell(stderr, objects, result)
	if err := o.write(result, stdout); err != nil {
		return err
	}
	switch {
	case o.strict && objects.Empty():
		return ErrEmpty
	case o.strict && len(result.Problems) > 0:
		return fmt.Errorf("%w: %d", ErrProblems, len(result.Problems))
	}
	return nil
}

// read reads every file; all that an API server would refuse is one error.
func (o renderOptions) read() (*offline.Objects, error) {
	objects := &offline.Objects{}
	for _, path := range o.files {
		if err := readPath(objects, path); err != nil {
			return nil, err
		}
	}
	if len(objects.Refused) > 0 {
		return nil, fmt.Errorf("%w:\n%s", ErrRefused, strings.Join(objects.Refused, "\n"))
	}
	return objects, nil
}

// tell says in words what was found.
func tell(w io.Writer, objects *offline.Objects, result offline.Result) {
	slices.Sort(objects.Ignored)
	for _, kind := range slices.Compact(objects.Ignored) {
		fmt.Fprintf(w, "ignored: %s\n", kind)
	}
	for _, note := range result.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	if objects.Empty() {
		fmt.Fprintf(w, "note: %v\n", ErrEmpty)
	}
	for _, problem := range result.Problems {
		fmt.Fprintln(w, problem)
	}
}

func (o renderOptions) write(r offline.Result, stdout io.Writer) error {
	if o.out == "" {
		return streamResult(r, stdout)
	}
	return writeResult(r, o.out)
}

func parseRender(args []string, lookup func(string) (string, bool), stdout io.Writer) (renderOptions, error) {
	o := renderOptions{}
	set := flag.NewFlagSet("operator render", flag.ContinueOnError)
	set.Func("f", "file or directory of YAML or JSON objects; may be given more than once, - is standard input", func(path string) error {
		o.files = append(o.files, path)
		return nil
	})
	set.StringVar(&o.out, "o", "", "directory to write children.yaml, workloads.yaml, status.yaml and snapshots/ to; default standard output")
	set.BoolVar(&o.strict, "strict", false, "fail when the plan refuses or warns of anything, or when there is nothing to plan; what it plans is written all the same")
	set.BoolVar(&o.Render.OpenShift, "enable-openshift", false, "render SCC RoleBindings")
	o.Render.SCC, o.Fence, o.Render.Hub = render.SCCReference, offline.FenceAuto, "oooi-hub.oooi-system.svc:8443"
	set.Var(&text{(*string)(&o.Render.SCC), sccName}, "scc", "reference or minimal")
	set.Var(&text{(*string)(&o.Fence), fenceName}, "fence", "auto, on or off")
	set.Var(&text{&o.Render.Hub, dialOrNone}, "hub", "address of the operator's gRPC server, `HOST:PORT`")
	set.Var(&text{&o.Render.HubIP, ipv4OrNone}, "hub-ip", "ClusterIP of the hub's Service")
	set.StringVar(&o.hubCA, "hub-ca", "", "PEM bundle of the hub's CA")
	now := set.String("now", "", "time of the plan, RFC 3339; default the clock's")
	if err := parse(set, args, stdout); err != nil {
		return o, err
	}
	o.files = append(o.files, set.Args()...)
	o.Render.Images = images.For(lookup)
	return o, o.complete(*now)
}

// complete validates the flags and reads what they name.
func (o *renderOptions) complete(now string) error {
	if len(o.files) == 0 {
		return errors.New("render needs at least one -f FILE")
	}
	o.Now = time.Now()
	if now != "" {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			return fmt.Errorf("invalid value %q for flag -now: want a time as in RFC 3339, such as 2026-01-31T12:00:00Z", now)
		}
		o.Now = at
	}
	if o.hubCA != "" {
		pem, err := os.ReadFile(o.hubCA)
		if err != nil {
			return fmt.Errorf("reading --hub-ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("reading --hub-ca: %s holds no certificate (PEM)", o.hubCA)
		}
		o.Render.HubCA = pem
	}
	return nil
}

func ipv4OrNone(s string) error {
	if s == "" {
		return nil
	}
	return hostIPv4(s)
}

// readPath reads a file, or every YAML and JSON file below a directory.
func readPath(objects *offline.Objects, path string) error {
	if path == "-" {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
		return objects.Read("standard input", text)
	}
	return filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if entry.IsDir() || file != path && !belongs(entry) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		return objects.Read(file, text)
	})
}

// belongs says which files of a directory are read; pipes are only by name.
func belongs(entry fs.DirEntry) bool {
	return entry.Type()&^fs.ModeSymlink == 0 && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name()))
}

// part of a result is one file.
type part struct {
	name    string
	objects []render.Object
	without string
}

func partsOf(r offline.Result) []part {
	return []part{
		{"children.yaml", r.Children, "status"}, {"workloads.yaml", r.Workloads, "status"}, {"status.yaml", r.Status, "spec"},
	}
}

// streamResult writes everything as one YAML stream.
func streamResult(r offline.Result, stdout io.Writer) error {
	var parts [][]byte
	for _, part := range partsOf(r) {
		text, err := offline.YAML(part.objects, part.without)
		if err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		if len(text) > 0 {
			parts = append(parts, text)
		}
	}
	_, err := stdout.Write(bytes.Join(parts, []byte("---\n")))
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// writeResult writes the parts into a directory; snapshots of children that are
// no more are removed.
func writeResult(r offline.Result, dir string) error {
	snapshots := filepath.Join(dir, "snapshots")
	if err := os.MkdirAll(snapshots, 0o755); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	for _, part := range partsOf(r) {
		text, err := offline.YAML(part.objects, part.without)
		if err != nil {
			return fmt.Errorf("writing %s: %w", part.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, part.name), text, 0o644); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	written := map[string]bool{}
	for _, s := range r.Snapshots {
		name := s.Child.Name + ".json"
		if written[name] {
			name = s.Child.Namespace + "_" + s.Child.Name + "_" + s.Component() + ".json"
		}
		written[name] = true
		text, err := s.Pretty()
		if err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if err := replaceFile(filepath.Join(snapshots, name), text); err != nil {
			return err
		}
	}
	return removeStale(snapshots, written)
}

// replaceFile writes whole files only: an agent may be watching this one.
func replaceFile(path string, text []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func removeStale(dir string, written map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") && !written[e.Name()] {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("removing a stale snapshot: %w", err)
			}
		}
	}
	return nil
}
