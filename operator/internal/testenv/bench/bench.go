package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// Ports of the operator under test, on loopback.
const (
	hubAddress     = "127.0.0.1:18443"
	metricsAddress = "127.0.0.1:18080"
	probeAddress   = "127.0.0.1:18081"
)

// namespace of the Infras and of the HostedClusters.
const namespace = "clusters"

type bench struct {
	env                 *testenv.Env
	dir                 string
	attachments, infras int
	operator            string
	process             *exec.Cmd
}

// say tells the person who waits how far it is.
func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

func newBench(ctx context.Context, operator string, attachments, infras int) (*bench, error) {
	say("starting etcd and kube-apiserver")
	env, err := testenv.Start(false)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "oooi-bench-")
	if err != nil {
		env.Stop()
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	b := &bench{env: env, dir: dir, attachments: attachments, infras: infras, operator: operator}
	say("making %d hosted clusters", attachments)
	if err := b.world(ctx); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func (b *bench) stop() {
	b.stopOperator()
	b.env.Stop()
	_ = os.RemoveAll(b.dir)
}

func name(i int) string { return fmt.Sprintf("cluster-%04d", i) }

// infraOf spreads attachments over the Infras.
func (b *bench) infraOf(i int) string { return fmt.Sprintf("vlan-%02d", i%b.infras) }

// hosted is the i-th cluster, with three workers.
func (b *bench) hosted(i int) testenv.Hosted {
	third, row := i%b.infras, i/b.infras
	h := testenv.Hosted{Namespace: namespace, Name: name(i)}
	for w := range 3 {
		n := row*3 + w
		h.Workers = append(h.Workers, fmt.Sprintf("10.200.%d.%d", third*8+n/200, 20+n%200))
	}
	return h
}

// world makes everything but the attachments; some clusters more, that come and go.
func (b *bench) world(ctx context.Context) error {
	if err := b.env.Install(ctx, testenv.HyperShift, testenv.CAPI, testenv.KubeVirt, testenv.Multus); err != nil {
		return err
	}
	if err := b.env.Create(ctx, testenv.NamespaceObject(namespace)); err != nil {
		return err
	}
	for i := range b.infras {
		nad := fmt.Sprintf("vlan-%02d", i)
		infra := testenv.Infra(namespace, nad, nad, 2)
		ip := func(third, last int) v1alpha1.IPv4 {
			return v1alpha1.IPv4(fmt.Sprintf("10.200.%d.%d", i*8+third, last))
		}
		infra.Spec.NetworkConfig.CIDR = v1alpha1.IPv4CIDR(fmt.Sprintf("10.200.%d.0/21", i*8))
		infra.Spec.NetworkConfig.Gateway = ip(0, 1)
		c := &infra.Spec.InfraComponents
		c.DHCP.ServerIP, c.DHCP.RangeStart, c.DHCP.RangeEnd = ip(0, 2), ip(0, 20), ip(6, 254)
		c.DNS.ServerIP, c.Proxy.ServerIP = ip(0, 3), ip(0, 4)
		if err := b.env.Create(ctx, testenv.NAD(namespace, nad), infra); err != nil {
			return err
		}
	}
	return b.each(b.attachments+b.infras, func(i int) error { return b.env.Create(ctx, b.hosted(i).Objects()...) })
}

func (b *bench) each(n int, do func(int) error) error {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

func (b *bench) attachment(i int) *v1alpha1.InfraClusterAttachment {
	return testenv.Attachment(namespace, name(i), b.infraOf(i))
}

func (b *bench) attach(ctx context.Context) error {
	return b.each(b.attachments, func(i int) error { return b.env.Create(ctx, b.attachment(i)) })
}

// startOperator runs the binary with the token of its ServiceAccount.
func (b *bench) startOperator(ctx context.Context) error {
	config, err := b.env.As(ctx, testenv.Namespace, testenv.ServiceAccount)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(b.dir, "kubeconfig")
	if err := testenv.WriteKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(b.dir, "operator.log"))
	if err != nil {
		return fmt.Errorf("making a log: %w", err)
	}
	b.process = exec.CommandContext(ctx, b.operator, "serve", "--kubeconfig="+kubeconfig, "--leader-elect=off",
		"--hub-bind-address="+hubAddress, "--metrics-bind-address="+metricsAddress, "--metrics-secure=false", "--health-probe-bind-address="+probeAddress)
	b.process.Stdout, b.process.Stderr = log, log
	if err := b.process.Start(); err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	return nil
}

func (b *bench) stopOperator() {
	if b.process == nil || b.process.Process == nil {
		return
	}
	_ = b.process.Process.Signal(os.Interrupt)
	_ = b.process.Wait()
	b.process = nil
}

// allReady waits until every attachment is Ready and every Infra counts them.
func (b *bench) allReady(ctx context.Context) error {
	deadline := time.Now().Add(10 * time.Minute)
	for {
		missing, err := b.notReady(ctx)
		if err != nil {
			return err
		}
		if missing == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not settled: %s", missing)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

func (b *bench) notReady(ctx context.Context) (string, error) {
	var infras v1alpha1.InfraList
	if err := b.env.Client.List(ctx, &infras, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("listing Infras: %w", err)
	}
	want := fmt.Sprintf("%d/%d", b.attachments/b.infras, b.attachments/b.infras)
	for _, i := range infras.Items {
		if i.Status.Attachments.ReadyOfTotal != want || !meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionReady) {
			return i.Name + " has " + i.Status.Attachments.ReadyOfTotal, nil
		}
	}
	return "", nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// resident memory of the operator, in MB.
func (b *bench) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.process.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading the operator's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kb); n == 1 {
			return kb / 1024, nil
		}
	}
	return 0, errors.New("reading the operator's memory: no VmRSS")
}
