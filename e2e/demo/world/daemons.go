package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/lab"
)

// daemons does for the three pods what a kubelet does: it runs the init
// containers to their end, starts the containers, and asks their probes.
func (w *World) daemons(ctx context.Context) error {
	if err := w.Pods.DHCP.Host.WriteFile(ctx, objectsDir+"/instances.yaml", string(w.Instances)); err != nil {
		return err
	}
	for _, p := range w.Pods.all() {
		// The fence stands already.
		for _, c := range p.spec.InitContainers[1:] {
			if err := w.runInit(ctx, p, c); err != nil {
				return fmt.Errorf("pod %s: %w", p.Component, err)
			}
		}
		for _, c := range p.spec.Containers {
			if err := w.startContainer(ctx, p, c); err != nil {
				return fmt.Errorf("pod %s: %w", p.Component, err)
			}
		}
	}
	for _, p := range w.Pods.all() {
		for _, c := range p.spec.Containers {
			for _, of := range []*probe{c.StartupProbe, c.ReadinessProbe} {
				if err := w.ready(ctx, p, c, of); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *World) runInit(ctx context.Context, p *Pod, c container) error {
	spec, err := w.spec(ctx, p, c)
	if err != nil {
		return err
	}
	_, err = p.Host.Exec(ctx, spec)
	return err
}

func (w *World) startContainer(ctx context.Context, p *Pod, c container) error {
	spec, err := w.spec(ctx, p, c)
	if err != nil {
		return err
	}
	_, err = w.start(p.Host, c.Name, spec)
	return err
}

// spec is a container as a program to run: the user and the capabilities that
// the Deployment gives it, and no more.
func (w *World) spec(ctx context.Context, p *Pod, c container) (lab.Spec, error) {
	program, err := w.install(ctx, p, c)
	if err != nil {
		return lab.Spec{}, err
	}
	env, err := c.environment(p)
	if err != nil {
		return lab.Spec{}, err
	}
	if p.Component == "dhcp" {
		// What the API server would tell of the VMs.
		env = append(env, "OOOI_OBJECTS="+objectsDir)
	}
	spec := lab.Spec{Args: append([]string{program}, c.Args...), Env: env, Unprivileged: true, Capabilities: c.capabilities()}
	if user := c.SecurityContext.RunAsUser; user != nil {
		spec.UID = strconv.FormatInt(*user, 10)
	}
	return spec, nil
}

// install puts a container's program into the pod, as its image would: root's,
// for all to run. A capability that the container adds lies on its file, where
// the container's user cannot have it otherwise.
func (w *World) install(ctx context.Context, p *Pod, c container) (string, error) {
	program := podBin + "/" + c.binary()
	if c.binary() == "envoy" {
		// Too big for a copy: the pod sees the machine's file.
		if _, err := p.Host.Run(ctx, "touch", program); err != nil {
			return "", err
		}
		_, err := p.Host.Run(ctx, "mount", "--bind", w.Envoy, program)
		return program, err
	}
	if _, err := p.Host.Run(ctx, "install", "-m", "755", filepath.Join(w.Bin, c.binary()), program); err != nil {
		return "", err
	}
	if c.SecurityContext.RunAsUser != nil || !lab.PodUserExists() {
		return program, nil
	}
	for _, capability := range c.capabilities() {
		if _, err := p.Host.Run(ctx, "setcap", "cap_"+capability+"+ep", program); err != nil {
			return "", err
		}
	}
	return program, nil
}

// ready asks a probe until it says yes.
func (w *World) ready(ctx context.Context, p *Pod, c container, of *probe) error {
	if of == nil {
		return nil
	}
	at, err := c.address(p, of)
	if err != nil {
		return err
	}
	return w.answers(ctx, at, of.HTTPGet.Path)
}

func (w *World) answers(ctx context.Context, at netip.AddrPort, path string) error {
	probe := actor.Probe{Address: at.String(), Plain: true, Host: at.String(), Path: path}
	return lab.Until(ctx, soon, probe.Address+path, func(ctx context.Context) error {
		out, err := Ask[actor.Outcome](ctx, w, w.node, "probe", probe)
		if err == nil && out.Status != http.StatusOK {
			err = fmt.Errorf("stage %s, status %d %s", out.Stage, out.Status, out.Error)
		}
		return errors.Join(err, w.Ended())
	})
}
