// node brings a real Kubernetes up on this machine and takes it down again.
//
//	node up [NODES]   brings one up and returns
//	node down         removes all of it
//	node down-orphan  the same, unless who has brought it up still runs
//	node sh CMD...    runs a command inside a box, with kubectl's PATH and KUBECONFIG
//
// The box is $OOOI_E2E_BOX (a node, a VM, control, switch or world), else the
// first node. The state lies in $OOOI_E2E_DIR, the tools in $KUBEBUILDER_ASSETS.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/densityops/oooi/e2e/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: node up [NODES] | down | down-orphan | sh CMD")
	}
	dir := cmp.Or(os.Getenv("OOOI_E2E_DIR"), filepath.Join(os.TempDir(), "oooi-e2e"))
	progress := node.NewProgress(os.Stdout, "node")
	switch args[0] {
	case "up":
		return up(ctx, dir, progress, args[1:])
	case "down", "down-orphan":
		c, err := node.Load(dir, progress)
		if err != nil || args[0] == "down-orphan" && c.Owned() {
			return err
		}
		return c.Down(ctx)
	case "sh":
		return shell(ctx, dir, progress, args[1:])
	default:
		return fmt.Errorf("node does not know %q", args[0])
	}
}

func up(ctx context.Context, dir string, progress *node.Progress, args []string) error {
	nodes := 1
	if len(args) > 0 {
		count, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("reading the number of nodes: %w", err)
		}
		nodes = count
	}
	_, err := node.Up(ctx, node.Options{Dir: dir, Tools: os.Getenv("KUBEBUILDER_ASSETS"), Nodes: nodes, Progress: progress})
	return err
}

func shell(ctx context.Context, dir string, progress *node.Progress, args []string) error {
	c, err := node.Load(dir, progress)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"bash"}
	}
	box, err := c.Box(cmp.Or(os.Getenv("OOOI_E2E_BOX"), node.Name(1)))
	if err != nil {
		return err
	}
	cmd := box.Command(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
