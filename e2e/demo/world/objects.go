package world

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

// Network is the VLAN as the Infra plans it.
type Network struct {
	Infra     string
	Namespace string
	CIDR      netip.Prefix
	Gateway   netip.Addr
	DHCP      netip.Addr
	DNS       netip.Addr
	Proxy     netip.Addr
	Upstream  netip.Addr
	// ProxyService and DNSService are the ClusterIPs of the pod side.
	ProxyService netip.Addr
	DNSService   netip.Addr
}

// Cluster is one hosted cluster.
type Cluster struct {
	Name      string
	Domain    string
	Namespace string
	// Services by name: where the control plane listens.
	Services map[string]netip.AddrPort
	Machines []Machine
	// Apps is the address of its ingress router on the VLAN.
	Apps netip.Addr
}

// Machine is a worker VM as KubeVirt knows it.
type Machine struct {
	Name string
	MAC  string
}

// Objects is the content of the directory.
type Objects struct {
	Network  Network
	Clusters []*Cluster
	// Instances are the VirtualMachineInstances as YAML, for dhcpd.
	Instances []byte
}

// object is what the demo reads of any object.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		NetworkConfig struct {
			CIDR       string   `json:"cidr"`
			Gateway    string   `json:"gateway"`
			DNSServers []string `json:"dnsServers"`
		} `json:"networkConfig"`
		InfraComponents map[string]struct {
			ServerIP string `json:"serverIP"`
		} `json:"infraComponents"`
		HostedClusterRef struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"hostedClusterRef"`
		DNS struct {
			ClusterName string `json:"clusterName"`
			BaseDomain  string `json:"baseDomain"`
		} `json:"dns"`
		ClusterIP string `json:"clusterIP"`
		Ports     []struct {
			Port uint16 `json:"port"`
		} `json:"ports"`
		Domain struct {
			Devices struct {
				Interfaces []struct {
					MACAddress string `json:"macAddress"`
				} `json:"interfaces"`
			} `json:"devices"`
		} `json:"domain"`
	} `json:"spec"`
	Status struct {
		AppsIngressStatus struct {
			ExternalIP string `json:"externalIP"`
		} `json:"appsIngressStatus"`
	} `json:"status"`

	source []byte
}

// Read reads every .yaml file of the directories.
func Read(dirs ...string) (*Objects, error) {
	var objects []object
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			return nil, err
		}
		sort.Strings(files)
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for i, doc := range bytes.Split(content, []byte("\n---\n")) {
				o := object{source: doc}
				// Kinds differ in what "domain" and "dns" are; a field of another shape is another kind's.
				if err := yaml.Unmarshal(doc, &o); err != nil && o.Kind == "" {
					return nil, fmt.Errorf("%s, document %d: %w", file, i+1, err)
				}
				objects = append(objects, o)
			}
		}
	}
	return gather(objects)
}

func gather(objects []object) (*Objects, error) {
	out := &Objects{}
	for _, o := range objects {
		switch o.Kind {
		case "Infra":
			if err := out.Network.read(o); err != nil {
				return nil, fmt.Errorf("the Infra %s: %w", o.Metadata.Name, err)
			}
		case "InfraClusterAttachment":
			out.Clusters = append(out.Clusters, clusterFor(o))
		case "VirtualMachineInstance":
			out.Instances = append(append(out.Instances, "---\n"...), append(bytes.TrimSpace(o.source), '\n')...)
		}
	}
	for _, o := range objects {
		if err := out.assign(o); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Kind, o.Metadata.Name, err)
		}
	}
	sort.Slice(out.Clusters, func(i, j int) bool { return out.Clusters[i].Name < out.Clusters[j].Name })
	return out, nil
}

func (n *Network) read(o object) (err error) {
	n.Infra, n.Namespace = o.Metadata.Name, o.Metadata.Namespace
	if n.CIDR, err = netip.ParsePrefix(o.Spec.NetworkConfig.CIDR); err != nil {
		return err
	}
	if len(o.Spec.NetworkConfig.DNSServers) != 1 {
		return fmt.Errorf("the demo runs one upstream resolver, not %d", len(o.Spec.NetworkConfig.DNSServers))
	}
	for _, a := range []struct {
		to   *netip.Addr
		from string
	}{
		{&n.Gateway, o.Spec.NetworkConfig.Gateway},
		{&n.Upstream, o.Spec.NetworkConfig.DNSServers[0]},
		{&n.DHCP, o.Spec.InfraComponents["dhcp"].ServerIP},
		{&n.DNS, o.Spec.InfraComponents["dns"].ServerIP},
		{&n.Proxy, o.Spec.InfraComponents["proxy"].ServerIP},
	} {
		if *a.to, err = netip.ParseAddr(a.from); err != nil {
			return err
		}
	}
	return nil
}

func clusterFor(o object) *Cluster {
	namespace := o.Spec.HostedClusterRef.Namespace
	if namespace == "" {
		namespace = "clusters"
	}
	apps, _ := netip.ParseAddr(o.Status.AppsIngressStatus.ExternalIP)
	return &Cluster{
		Name:      o.Metadata.Name,
		Domain:    o.Spec.DNS.ClusterName + "." + o.Spec.DNS.BaseDomain,
		Namespace: namespace + "-" + o.Spec.HostedClusterRef.Name,
		Services:  map[string]netip.AddrPort{},
		Apps:      apps,
	}
}

// assign gives Services and VMs to their clusters, by namespace.
func (out *Objects) assign(o object) error {
	cluster := out.in(o.Metadata.Namespace)
	switch {
	case o.Kind == "Service" && len(o.Spec.Ports) > 0:
		address, err := netip.ParseAddr(o.Spec.ClusterIP)
		if err != nil {
			return err
		}
		switch {
		case cluster != nil:
			cluster.Services[o.Metadata.Name] = netip.AddrPortFrom(address, o.Spec.Ports[0].Port)
		case o.Metadata.Name == out.Network.Infra+"-proxy":
			out.Network.ProxyService = address
		case o.Metadata.Name == out.Network.Infra+"-dns":
			out.Network.DNSService = address
		}
	case o.Kind == "VirtualMachineInstance" && cluster != nil:
		interfaces := o.Spec.Domain.Devices.Interfaces
		if len(interfaces) != 1 {
			return fmt.Errorf("the demo's VMs have one interface, not %d", len(interfaces))
		}
		return out.boot(cluster, Machine{Name: o.Metadata.Name, MAC: strings.ToLower(interfaces[0].MACAddress)})
	}
	return nil
}

// boot adds a VM to a cluster, if no other has its hardware address.
func (out *Objects) boot(cluster *Cluster, m Machine) error {
	for _, c := range out.Clusters {
		for _, other := range c.Machines {
			if other.MAC == m.MAC {
				return fmt.Errorf("spec.domain.devices.interfaces[0].macAddress %q is %s's in %s too", m.MAC, other.Name, c.Namespace)
			}
		}
	}
	cluster.Machines = append(cluster.Machines, m)
	return nil
}

func (out *Objects) in(namespace string) *Cluster {
	for _, c := range out.Clusters {
		if c.Namespace == namespace {
			return c
		}
	}
	return nil
}
