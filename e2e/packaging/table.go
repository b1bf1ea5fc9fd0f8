package packaging

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// TablePath is where the table lies in the repository.
const TablePath = "bundle/components.yaml"

// Table is bundle/components.yaml.
type Table struct {
	// Version of the bundle, which is the operator's.
	Version string `json:"version"`
	// Created is the day of that version.
	Created string `json:"created"`
	// Toolchain is the Go that the digests were made with.
	Toolchain string `json:"toolchain"`
	// MinKubeVersion is the oldest Kubernetes whose API server takes the CRDs.
	MinKubeVersion string `json:"minKubeVersion"`
	// DefaultChannel of the catalog; its other channels are files too.
	DefaultChannel string `json:"defaultChannel"`
	// Components are the images that run.
	Components []Component `json:"components"`
}

// Component is one image.
type Component struct {
	Name string `json:"name"`
	// Module whose tag the image is built from; empty where it holds none.
	Module string `json:"module,omitempty"`
	// Version of that module, or of Envoy.
	Version string `json:"version"`
	Image   string `json:"image"`
	Digest  string `json:"digest"`
	// Env tells the operator the image; its own and must-gather's have none.
	Env string `json:"env,omitempty"`
}

// Ref is the image by digest, the only way in which anything refers to it.
func (c Component) Ref() string { return c.Image + "@" + c.Digest }

// Tag is the image by version.
func (c Component) Tag() string { return c.Image + ":" + c.Version }

var (
	digestForm  = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
)

// ReadTable reads and checks the table of the repository at root.
func ReadTable(root string) (Table, error) {
	raw, err := os.ReadFile(filepath.Join(root, TablePath))
	if err != nil {
		return Table{}, fmt.Errorf("reading the table: %w", err)
	}
	var table Table
	if err := yaml.UnmarshalStrict(raw, &table); err != nil {
		return Table{}, fmt.Errorf("%s: %w", TablePath, err)
	}
	if err := table.Validate(); err != nil {
		return Table{}, fmt.Errorf("%s: %w", TablePath, err)
	}
	return table, nil
}

// Validate checks what everything else takes for granted.
func (t Table) Validate() error {
	if !versionForm.MatchString(t.Version) {
		return fmt.Errorf("version %q is no semantic version", t.Version)
	}
	names, images := map[string]bool{}, map[string]bool{}
	for _, c := range t.Components {
		if names[c.Name] || c.Name == "" {
			return fmt.Errorf("component %q is there twice or has no name", c.Name)
		}
		if images[c.Image] || c.Image == "" {
			return fmt.Errorf("component %s: image %q is there twice or empty", c.Name, c.Image)
		}
		if err := c.validate(t.Version); err != nil {
			return fmt.Errorf("component %s: %w", c.Name, err)
		}
		names[c.Name], images[c.Image] = true, true
	}
	if !names[operatorName] {
		return fmt.Errorf("there is no component operator")
	}
	return nil
}

func (c Component) validate(bundle string) error {
	version, found := strings.CutPrefix(c.Version, "v")
	switch {
	case !digestForm.MatchString(c.Digest):
		return fmt.Errorf("digest %q is no sha256 digest", c.Digest)
	case !found || !versionForm.MatchString(version):
		return fmt.Errorf("version %q is no version of a module", c.Version)
	case (c.Name == operatorName || c.Name == mustGatherName) && (c.Env != "" || version != bundle):
		return fmt.Errorf("it has no env, and its version is the bundle's, v%s", bundle)
	case c.Name != operatorName && c.Name != mustGatherName && c.Env != envName(c.Name):
		return fmt.Errorf("env is %q, not %s", c.Env, envName(c.Name))
	}
	return nil
}

const (
	operatorName   = "operator"
	mustGatherName = "must-gather"
)

func envName(component string) string {
	return "RELATED_IMAGE_" + strings.ToUpper(strings.ReplaceAll(component, "-", "_"))
}

// Component is the one of that name; Validate says that "operator" is there.
func (t Table) Component(name string) (Component, bool) {
	for _, c := range t.Components {
		if c.Name == name {
			return c, true
		}
	}
	return Component{}, false
}

func (t Table) operator() Component {
	c, _ := t.Component(operatorName)
	return c
}

// Registry is where the operator's image lies, such as quay.io/densityops.
func (t Table) Registry() string {
	registry, _, _ := cutLast(t.operator().Image, "/")
	return registry
}

// In is the table with all images in another registry, by the same digests.
func (t Table) In(registry string) Table {
	t.Components = slices.Clone(t.Components)
	for i := range t.Components {
		t.Components[i].Image = move(t.Components[i].Image, registry)
	}
	return t
}

// At is the table for another version of the bundle.
func (t Table) At(version string) Table {
	t.Version, t.Components = version, slices.Clone(t.Components)
	for i, c := range t.Components {
		if c.Name == operatorName || c.Name == mustGatherName {
			t.Components[i].Version = "v" + version
		}
	}
	return t
}

// Pin is the table with the digests given by component.
func (t Table) Pin(digests map[string]string, toolchain string) Table {
	t.Components = slices.Clone(t.Components)
	for i, c := range t.Components {
		t.Components[i].Digest = cmp.Or(digests[c.Name], c.Digest)
	}
	t.Toolchain = toolchain
	return t
}

// BundleImage and CatalogImage lie beside the operator's.
func (t Table) BundleImage() string { return t.Registry() + "/oooi-bundle" }

// CatalogImage is the catalog's image, without tag or digest.
func (t Table) CatalogImage() string { return t.Registry() + "/oooi-catalog" }

func move(image, registry string) string {
	_, name, found := cutLast(image, "/")
	if !found {
		name = image
	}
	return registry + "/" + name
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

const tableHeader = `# What oooi is made of: the version of each module, its image, the image's
# digest, and the variable that tells the operator of it. "make bundle" makes
# the bundle, relatedImages, the RELATED_IMAGE_* variables and the
# kustomization in manifests/images from it; "make pin" writes the digests and
# the toolchain that "make images" came to. This table, not a go.mod, says
# which versions go together.
`

// WriteTable writes the table into the repository at root.
func WriteTable(root string, table Table) error {
	if err := table.Validate(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	var out bytes.Buffer
	out.WriteString(tableHeader)
	fmt.Fprintf(&out, "version: %s\ncreated: %q\ntoolchain: %s\nminKubeVersion: %s\ndefaultChannel: %s\ncomponents:\n",
		table.Version, table.Created, table.Toolchain, table.MinKubeVersion, table.DefaultChannel)
	for _, c := range table.Components {
		fmt.Fprintf(&out, "  - name: %s\n", c.Name)
		for _, field := range [][2]string{
			{"module", c.Module}, {"version", c.Version}, {"image", c.Image}, {"digest", c.Digest}, {"env", c.Env},
		} {
			if field[1] != "" {
				fmt.Fprintf(&out, "    %s: %s\n", field[0], field[1])
			}
		}
	}
	if err := os.WriteFile(filepath.Join(root, TablePath), out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}
