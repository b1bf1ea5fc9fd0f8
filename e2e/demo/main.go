// Command demo runs oooi for a few hosted clusters in network namespaces, boots
// their worker VMs, and checks with real clients what they reach and what they
// must not. It prints a table and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/demo/check"
	"github.com/densityops/oooi/e2e/demo/world"
	"github.com/densityops/oooi/e2e/lab"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == actor.Name {
		os.Exit(actor.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	if err := o.parse(args, stderr); err != nil {
		return 2
	}
	if os.Geteuid() != 0 {
		code, err := inUserNamespace(context.Background())
		if err != nil {
			fmt.Fprintf(stderr, "%v\nRun the demo as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "+
				"user.max_user_namespaces).\n", err)
			return 1
		}
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := demo(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	return 0
}

type options struct {
	bin, envoy, objects string
	keep                bool
}

func (o *options) parse(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.bin, "bin", "bin", "directory of the product's binaries")
	flags.StringVar(&o.envoy, "envoy", "bin/tools/envoy", "the Envoy binary")
	flags.StringVar(&o.objects, "objects", "e2e/demo/objects", "directories of Kubernetes objects, comma-separated")
	flags.BoolVar(&o.keep, "keep", false, "leave everything up until Ctrl-C, and print how to look around")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, path := range []*string{&o.bin, &o.envoy} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	return nil
}

// demo builds the world, checks it and takes it down again.
func demo(ctx context.Context, o options, out io.Writer) (err error) {
	begin := time.Now()
	dir, err := os.MkdirTemp("", "oooi-demo-")
	if err != nil {
		return err
	}
	defer func() {
		// What the programs said is worth more than a clean directory when something failed.
		if err == nil && !o.keep || ctx.Err() != nil {
			err = errors.Join(err, os.RemoveAll(dir))
			return
		}
		fmt.Fprintln(out, "plans and logs:", dir)
	}()
	self, err := actor.Self()
	if err != nil {
		return err
	}
	step := stepper(out)
	w, err := world.Build(ctx, world.Options{
		Bin: o.bin, Envoy: o.envoy, Objects: strings.Split(o.objects, ","), Dir: dir, Self: self, Step: step,
	})
	if w != nil {
		defer w.Lab.Close()
	}
	if err == nil {
		results := check.All(ctx, w, step)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		err = report(out, w, results, time.Since(begin))
	}
	if o.keep && w != nil {
		keep(ctx, w, out)
	}
	return err
}

// stepper prints a line before and after each step.
func stepper(out io.Writer) func(string) func(error) {
	n := 0
	return func(words string) func(error) {
		n++
		begin := time.Now()
		fmt.Fprintf(out, "[%2d] %s ... ", n, words)
		return func(err error) {
			word := "done"
			if err != nil {
				word = "FAILED"
			}
			fmt.Fprintf(out, "%s (%.1f s)\n", word, time.Since(begin).Seconds())
		}
	}
}

// keep leaves the world up until it is interrupted.
func keep(ctx context.Context, w *world.World, out io.Writer) {
	who, enter := "as root", "nsenter --all --target"
	if !lab.PodUserExists() {
		who, enter = "as the same user", "nsenter --all --preserve-credentials --target"
	}
	fmt.Fprintf(out, "\nThe lab is up until Ctrl-C. From another shell, %s:\n", who)
	for _, h := range w.Lab.Hosts() {
		fmt.Fprintf(out, "  %s %d    # %s\n", enter, h.PID(), h.Name)
	}
	if len(w.VMs) > 0 {
		vm := w.VMs[0]
		fmt.Fprintf(out, "For example, what a worker sees:\n"+
			"  %[1]s %[2]d dig api.%[3]s kubernetes.default.svc\n"+
			"  %[1]s %[2]d cat /run/lease /etc/resolv.conf\n", enter, vm.Host.PID(), vm.Cluster.Domain)
	}
	fmt.Fprintf(out, "What DHCP has given, and what the servers count:\n  %s %d %s\n", enter, w.Pods.DHCP.Host.PID(), strings.Join(world.Leases(), " "))
	for _, url := range []string{
		fmt.Sprintf("%s:9091/metrics", w.Pods.DHCP.IP), fmt.Sprintf("%s:9094/metrics", w.Pods.DNS.IP),
		fmt.Sprintf("%s:9090/metrics", w.Pods.Proxy.IP), fmt.Sprintf("%s:9901/stats/prometheus", w.Pods.Proxy.IP),
	} {
		fmt.Fprintf(out, "  %s %d busybox wget -qO- http://%s\n", enter, w.Hub.PID(), url)
	}
	fmt.Fprintf(out, "Plans: %s/plan-1, %s/plan-2; what each program says: %s/logs\n", w.Dir, w.Dir, w.Dir)
	<-ctx.Done()
}
