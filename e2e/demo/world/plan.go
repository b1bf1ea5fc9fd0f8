package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/lab"
)

// render lets the operator plan the objects, and more than them if given.
func (w *World) render(ctx context.Context, name string, more []byte) error {
	out := filepath.Join(w.Dir, name)
	args := []string{"render", "--strict", "-o", out}
	for _, dir := range w.Options.Objects {
		args = append(args, "-f", dir)
	}
	if more != nil {
		file := filepath.Join(w.Dir, name+"-leases.yaml")
		if err := writeNew(file, more); err != nil {
			return err
		}
		args = append(args, "-f", file)
	}
	said, err := exec.CommandContext(ctx, filepath.Join(w.Bin, "operator"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("operator %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return nil
}

// binding is a lease as dhcpd reports it in its status.
type binding struct {
	MACAddress  string `json:"macAddress"`
	IP          string `json:"ip"`
	VMNamespace string `json:"vmNamespace,omitempty"`
	VMName      string `json:"vmName,omitempty"`
}

// replan plans again with the leases that dhcpd reports, as the operator does
// from the DHCPServer's status, and hands the new plan to the daemons.
func (w *World) replan(ctx context.Context) error {
	bindings, err := w.leases(ctx)
	if err != nil {
		return err
	}
	server, err := w.reported(bindings)
	if err != nil {
		return err
	}
	if err := w.render(ctx, "plan-2", server); err != nil {
		return err
	}
	for _, p := range w.Pods.all() {
		if err := w.configure(ctx, p, "plan-2"); err != nil {
			return err
		}
	}
	return each(w.VMs, func(vm *VM) error { return w.inForce(ctx, vm) })
}

// reported is the first plan's DHCPServer with the status of its agent, as a cluster
// would have it.
func (w *World) reported(bindings []binding) ([]byte, error) {
	children, err := os.ReadFile(filepath.Join(w.Dir, "plan-1", "children.yaml"))
	if err != nil {
		return nil, err
	}
	for document := range bytes.SplitSeq(children, []byte("\n---\n")) {
		var server map[string]any
		if err := yaml.Unmarshal(document, &server); err != nil {
			return nil, fmt.Errorf("reading the first plan: %w", err)
		}
		if server["kind"] == "DHCPServer" {
			server["status"] = map[string]any{"agent": map[string]any{"bindings": bindings}}
			return yaml.Marshal(server)
		}
	}
	return nil, errors.New("the first plan has no DHCPServer")
}

// Leases is the command that lists what dhcpd has given, in its pod.
func Leases() []string { return []string{podBin + "/dhcpd", "leases", "-state-dir", stateDir} }

// leases asks dhcpd what it has given, until it names every VM.
func (w *World) leases(ctx context.Context) ([]binding, error) {
	var bindings []binding
	err := lab.Until(ctx, soon, "dhcpd's list of leases", func(ctx context.Context) error {
		said, err := w.Pods.DHCP.Host.Exec(ctx, lab.Spec{
			Args:         append(Leases(), "-output", "json"),
			Unprivileged: true, Capabilities: []string{"net_raw"},
		})
		if err != nil {
			return err
		}
		if bindings, err = parseBindings(said); err != nil {
			return fmt.Errorf("%s: %w", said, err)
		}
		for _, vm := range w.VMs {
			if !holds(bindings, vm) {
				return fmt.Errorf("%s (%s) is missing in %s", vm.Name, vm.MAC, said)
			}
		}
		return nil
	})
	return bindings, err
}

// parseBindings makes bindings of what dhcpd prints of its journal.
func parseBindings(said string) ([]binding, error) {
	var rows []struct{ IP, State, MACAddress, VM string }
	if err := json.Unmarshal([]byte(said), &rows); err != nil {
		return nil, err
	}
	var out []binding
	for _, r := range rows {
		if r.State != "bound" {
			continue
		}
		namespace, name, _ := strings.Cut(r.VM, "/")
		out = append(out, binding{MACAddress: r.MACAddress, IP: r.IP, VMNamespace: namespace, VMName: name})
	}
	return out, nil
}

func holds(bindings []binding, vm *VM) bool {
	for _, b := range bindings {
		if b.MACAddress == vm.MAC && b.IP == vm.Lease.Address.Addr().String() && b.VMName == vm.Name && b.VMNamespace == vm.Cluster.Namespace {
			return true
		}
	}
	return false
}

// inForce waits until the plan that knows the VM's address is served: its alias
// has an address and leads to a control plane.
func (w *World) inForce(ctx context.Context, vm *VM) error {
	probe := actor.Probe{
		Address: "kubernetes.default.svc:6443", Authorities: w.Authority(vm.Cluster.Name),
		Expect: "kubernetes.default.svc", Host: "kubernetes.default.svc",
	}
	return lab.Until(ctx, soon, "the alias of "+vm.Name, func(ctx context.Context) error {
		out, err := Ask[actor.Outcome](ctx, w, vm.Host, "probe", probe)
		if err == nil && out.Stage != "answer" {
			err = fmt.Errorf("%s: %s", out.Stage, out.Error)
		}
		return errors.Join(err, w.Ended())
	})
}
