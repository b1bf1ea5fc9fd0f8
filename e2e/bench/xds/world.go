package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// world is what a snapshot says: so many attachments, each with its workers.
type world struct {
	attachments int
	// extra workers of attachments, by attachment.
	extra map[int][]string
	// endpoint of attachments that differ, by attachment.
	endpoint map[int]string
	// absent attachments.
	absent map[int]bool
}

const (
	serverIP       = "198.18.0.4"
	network        = "198.18.0.0/15"
	backendIP      = "203.0.113.9"
	workersOfEach  = 3
	routesOfEach   = 4
	backendsOfEach = 7
	podIP          = "127.0.0.1"
	konnectivityOf = "konnectivity.hcp-%d.clusters.example.com"
)

type object = map[string]any

func worker(i int) string { return fmt.Sprintf("198.19.%d.%d/32", i/250, 1+i%250) }

// backends are what every attachment has: its four names, its aliases on both
// ports and the fallback. prefix is what the form begins the protocols with.
func (w world) backends(prefix string) []any {
	out := make([]any, 0, backendsOfEach*w.attachments)
	for a := range w.attachments {
		if w.absent[a] {
			continue
		}
		ip := backendIP
		if e := w.endpoint[a]; e != "" {
			ip = e
		}
		var sources []any
		for k := range workersOfEach {
			sources = append(sources, worker(a*workersOfEach+k))
		}
		for _, x := range w.extra[a] {
			sources = append(sources, x)
		}
		add := func(name string, port int, protocol string, to int, sources []any, names ...any) {
			out = append(out, object{
				"name": fmt.Sprintf("hcp-%d/%s", a, name), "port": port, "protocol": prefix + protocol, "hostnames": names,
				"sourcePrefixRanges": sources, "endpoints": []any{object{"ip": ip, "port": to}},
			})
		}
		d := fmt.Sprintf(".hcp-%d.clusters.example.com", a)
		add("api", 6443, "TLS", 6443, nil, "api"+d, "api-int"+d)
		add("oauth", 443, "TLS", 6443, nil, "oauth"+d)
		add("ignition", 443, "TLS", 443, nil, "ignition"+d)
		add("konnectivity", 443, "TLS", 8091, nil, "konnectivity"+d)
		add("alias-api", 6443, "TCP", 6443, sources)
		add("alias-tls", 443, "TLS", 6443, sources, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
		add("fallback", 443, "TLS", 8091, sources)
	}
	return out
}

// encode is the world as a snapshot.
func (w world) encode(version string) ([]byte, error) {
	return json.Marshal(object{"version": version, "proxy": object{
		"serverIp": serverIP, "cidr": network, "backends": w.backends("PROXY_PROTOCOL_"), "accessLog": false, "logLevel": "error",
	}})
}

// spec is the world as a ProxyServer.
func (w world) spec() object {
	return object{
		"networkConfig": object{"serverIP": serverIP, "cidr": network, "networkAttachmentName": "vlan"},
		"backends":      w.backends(""), "accessLog": false, "logLevel": "error",
	}
}

// change makes the i-th of a cycle of small changes: a worker more, another
// endpoint, an attachment less, all back.
func (w world) change(i int) world {
	target := (7 * i) % w.attachments
	switch i % 4 {
	case 1:
		w.extra = map[int][]string{target: {fmt.Sprintf("198.18.%d.%d/32", 100+i/250%100, 1+i%250)}}
	case 2:
		w.endpoint = map[int]string{target: fmt.Sprintf("203.0.113.%d", 10+i%200)}
	case 3:
		w.absent = map[int]bool{target: true}
	}
	return w
}

func replace(path string, content []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Clean(path))
}
