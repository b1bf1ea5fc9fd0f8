package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const holderName = "holder"

// holderID is who this pod is: its UID, or an identity that lives as long as
// the state directory does, which is as long as the pod.
func holderID(opts Options) (string, error) {
	if opts.PodUID != "" || opts.StateDir == "" {
		return opts.PodUID, nil
	}
	path := filepath.Join(opts.StateDir, holderName)
	b, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(b))) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading identity: %w", err)
	}
	id := rand.Text()
	if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
		return id, nil // the journal says so when it cannot be written either
	}
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return id, nil // likewise
	}
	return id, nil
}
