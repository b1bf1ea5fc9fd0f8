package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// deployment is what the demo reads of a Deployment that the operator rendered.
type deployment struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
			Spec podSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	// BinaryData is of a ConfigMap.
	BinaryData map[string][]byte `json:"binaryData"`
}

type podSpec struct {
	SecurityContext struct {
		Sysctls []struct{ Name, Value string } `json:"sysctls"`
	} `json:"securityContext"`
	InitContainers []container `json:"initContainers"`
	Containers     []container `json:"containers"`
}

type container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name      string `json:"name"`
		Value     string `json:"value"`
		ValueFrom struct {
			FieldRef struct {
				FieldPath string `json:"fieldPath"`
			} `json:"fieldRef"`
		} `json:"valueFrom"`
	} `json:"env"`
	Ports []struct {
		Name          string `json:"name"`
		ContainerPort uint16 `json:"containerPort"`
	} `json:"ports"`
	ReadinessProbe  *probe `json:"readinessProbe"`
	StartupProbe    *probe `json:"startupProbe"`
	SecurityContext struct {
		RunAsUser    *int64 `json:"runAsUser"`
		Capabilities struct {
			Add  []string `json:"add"`
			Drop []string `json:"drop"`
		} `json:"capabilities"`
	} `json:"securityContext"`
}

type probe struct {
	HTTPGet struct {
		Path string `json:"path"`
		Port string `json:"port"`
	} `json:"httpGet"`
}

// network is a device that a pod asks Multus for.
type network struct {
	Interface string   `json:"interface"`
	IPs       []string `json:"ips"`
}

// workload reads a component's Deployment and the ConfigMap beside it.
func (w *World) workload(plan, component string) (pod deployment, config map[string][]byte, err error) {
	content, err := os.ReadFile(filepath.Join(w.Dir, plan, "workloads.yaml"))
	if err != nil {
		return pod, nil, err
	}
	name := w.Network.Infra + "-" + component
	for doc := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var d deployment
		// Other kinds have other shapes.
		if err := yaml.Unmarshal(doc, &d); err != nil && (d.Kind == "Deployment" || d.Kind == "ConfigMap") {
			return pod, nil, fmt.Errorf("%s %s: %w", d.Kind, d.Metadata.Name, err)
		}
		switch {
		case d.Metadata.Name != name:
		case d.Kind == "Deployment":
			pod = d
		case d.Kind == "ConfigMap":
			config = d.BinaryData
		}
	}
	if pod.Kind == "" || config == nil {
		return pod, nil, fmt.Errorf("%s has no Deployment and ConfigMap %s", plan, name)
	}
	return pod, config, nil
}

// vlan is the device and the address that the Deployment wants on the VLAN.
func (d deployment) vlan() (device string, address netip.Prefix, err error) {
	var networks []network
	if err := json.Unmarshal([]byte(d.Spec.Template.Metadata.Annotations["k8s.v1.cni.cncf.io/networks"]), &networks); err != nil {
		return "", address, err
	}
	if len(networks) != 1 || len(networks[0].IPs) != 1 {
		return "", address, fmt.Errorf("one network with one address is wanted, not %+v", networks)
	}
	address, err = netip.ParsePrefix(networks[0].IPs[0])
	return networks[0].Interface, address, err
}

// Where a pod's volumes lie in the demo: all below its own /run.
var volumes = strings.NewReplacer("/etc/oooi", configDir, "/var/lib/oooi", stateDir)

// ofCluster are the settings that name a cluster's API server and operator, and
// the limit of a container's memory. The demo has none of them, and runs the same
// programs as plain daemons.
var ofCluster = []string{"OOOI_HUB", "OOOI_HUB_CA", "OOOI_TOKEN", "OOOI_CHILD", "OOOI_ENVOY_MEMORY"}

// environment resolves a container's variables as the kubelet does.
func (c container) environment(p *Pod) ([]string, error) {
	expand := strings.NewReplacer("$(POD_IP)", p.IP.String())
	var out []string
	for _, e := range c.Env {
		value := volumes.Replace(expand.Replace(e.Value))
		switch e.ValueFrom.FieldRef.FieldPath {
		case "":
		case "status.podIP":
			value = p.IP.String()
		case "metadata.uid":
			value = "pod-" + p.Component
		default:
			return nil, fmt.Errorf("container %s: the demo knows no field %s", c.Name, e.ValueFrom.FieldRef.FieldPath)
		}
		if !slices.Contains(ofCluster, e.Name) {
			out = append(out, e.Name+"="+value)
		}
	}
	return out, nil
}

// binary is the program that the container's image starts.
func (c container) binary() string {
	if len(c.Command) > 0 {
		return path.Base(c.Command[0])
	}
	image, _, _ := strings.Cut(path.Base(c.Image), ":")
	return strings.TrimPrefix(image, "oooi-")
}

// capabilities are the names that setpriv(1) knows them by.
func (c container) capabilities() []string {
	var out []string
	for _, name := range c.SecurityContext.Capabilities.Add {
		out = append(out, strings.ToLower(name))
	}
	return out
}

// address is where a probe of the container asks.
func (c container) address(p *Pod, of *probe) (netip.AddrPort, error) {
	for _, port := range c.Ports {
		if port.Name == of.HTTPGet.Port {
			return netip.AddrPortFrom(p.IP, port.ContainerPort), nil
		}
	}
	return netip.AddrPort{}, errors.New("a probe of container " + c.Name + " names no port of it")
}
