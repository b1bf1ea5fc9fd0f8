package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const cgroupFS = "/sys/fs/cgroup"

// hierarchies are those of cgroup v1 that kubelet and runc use.
var hierarchies = []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd"}

// ownCgroup is the memory cgroup of this process. Pods run below it, so that
// whatever ends the caller's work by its cgroup ends the pods too.
func ownCgroup() (string, error) {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("reading the own cgroup: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), "memory") {
			return fields[2], nil
		}
	}
	return "", errors.New("this process has no memory cgroup")
}

// makeCgroup makes the path in every hierarchy.
func makeCgroup(path string) error {
	for _, h := range hierarchies {
		root := filepath.Join(cgroupFS, h)
		if _, err := os.Stat(root); err != nil {
			continue
		}
		dir := root
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("making the cgroup: %w", err)
			}
			if h == "cpuset" {
				if err := fillCpuset(root, dir); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fillCpuset gives a new cpuset all CPUs and memory nodes; it has none at first
// and takes no process then.
func fillCpuset(root, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return fmt.Errorf("reading the cpuset: %w", err)
		}
		if len(bytes.TrimSpace(have)) > 0 {
			continue
		}
		all, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return fmt.Errorf("reading the cpuset: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), all, 0o644); err != nil {
			return fmt.Errorf("filling the cpuset: %w", err)
		}
	}
	return nil
}

// removeCgroup removes the path and what is below it in every hierarchy, and
// parents that are empty then.
func removeCgroup(ctx context.Context, path string) error {
	// runc also makes it where nothing of ours asked for it: in "unified".
	mounted, err := os.ReadDir(cgroupFS)
	if err != nil {
		return fmt.Errorf("listing the cgroup hierarchies: %w", err)
	}
	for _, h := range mounted {
		root := filepath.Join(cgroupFS, h.Name())
		top := filepath.Join(root, path)
		err := Wait(ctx, patience, "the cgroups to empty", func(context.Context) error { return removeTree(top) })
		if err != nil {
			return err
		}
		for dir := filepath.Dir(top); dir != root && dir != "/"; dir = filepath.Dir(dir) {
			if syscall.Rmdir(dir) != nil {
				break
			}
		}
	}
	return nil
}

func removeTree(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("walking the cgroups: %w", err)
	}
	for _, dir := range slices.Backward(dirs) {
		if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("removing cgroup %s: %w", dir, err)
		}
	}
	return nil
}
