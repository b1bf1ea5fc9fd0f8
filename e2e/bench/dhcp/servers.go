package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// The benchmarking network (RFC 2544): ours is the server's end.
const (
	serverIP = "198.18.0.1"
	clientIP = "198.18.0.2"
	prefix   = 15
)

// server is one DHCP server to be measured.
type server struct {
	name string
	// durable: it syncs to disk before it acknowledges.
	durable bool
	start   func(dir string, first, last netip.Addr) (args, env []string, err error)
}

func servers(ours string) []server {
	return []server{
		{"ours", true, func(dir string, first, last netip.Addr) ([]string, []string, error) {
			return dhcpd(ours, dir, first, last)
		}},
		{"kea-st", false, func(dir string, first, last netip.Addr) ([]string, []string, error) {
			return kea(dir, first, last, false)
		}},
		{"kea-mt", false, func(dir string, first, last netip.Addr) ([]string, []string, error) {
			return kea(dir, first, last, true)
		}},
		{"dnsmasq", false, dnsmasq},
	}
}

func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

func dhcpd(binary, dir string, first, last netip.Addr) ([]string, []string, error) {
	file := filepath.Join(dir, "snapshot.json")
	err := writeJSON(file, map[string]any{"dhcp": map[string]any{
		"cidr": fmt.Sprintf("198.18.0.0/%d", prefix), "gateway": serverIP, "serverIp": serverIP, "dnsServers": []string{"198.18.0.3"},
		"range": map[string]string{"start": first.String(), "end": last.String()}, "leaseSeconds": 3600, "relays": []string{clientIP},
	}})
	return []string{binary, "serve", "--snapshot", file, "--state-dir", filepath.Join(dir, "state"), "--log-level", "warn"}, nil, err
}

func kea(dir string, first, last netip.Addr, threads bool) ([]string, []string, error) {
	file := filepath.Join(dir, "kea.json")
	option := func(name, data string) map[string]string { return map[string]string{"name": name, "data": data} }
	err := writeJSON(file, map[string]any{"Dhcp4": map[string]any{
		"interfaces-config": map[string]any{"interfaces": []string{"eth0"}, "dhcp-socket-type": "udp"},
		"lease-database":    map[string]any{"type": "memfile", "persist": true, "name": filepath.Join(dir, "leases.csv"), "lfc-interval": 0},
		"multi-threading":   map[string]any{"enable-multi-threading": threads, "thread-pool-size": 2, "packet-queue-size": 64},
		"valid-lifetime":    3600,
		"subnet4": []any{map[string]any{
			"subnet": fmt.Sprintf("198.18.0.0/%d", prefix), "pools": []any{map[string]string{"pool": first.String() + " - " + last.String()}},
			"option-data": []any{option("routers", serverIP), option("domain-name-servers", "198.18.0.3")},
		}},
		"loggers": []any{map[string]any{"name": "kea-dhcp4", "severity": "WARN", "output_options": []any{map[string]string{"output": filepath.Join(dir, "log")}}}},
	}})
	return []string{"kea-dhcp4", "-c", file}, []string{"KEA_PIDFILE_DIR=" + dir, "KEA_LOCKFILE_DIR=" + dir}, err
}

func dnsmasq(dir string, first, last netip.Addr) ([]string, []string, error) {
	return []string{
		"dnsmasq", "-k", "--conf-file=/dev/null", "--port=0", "--interface=eth0", "--bind-dynamic", "--no-ping", "--user=root",
		fmt.Sprintf("--dhcp-range=%s,%s,255.254.0.0,1h", first, last), "--dhcp-option=3," + serverIP, "--dhcp-option=6,198.18.0.3",
		"--dhcp-lease-max=200000", "--dhcp-leasefile=" + filepath.Join(dir, "leases"), "--quiet-dhcp", "--pid-file=" + filepath.Join(dir, "pid"),
		"--dhcp-authoritative", "--log-facility=" + filepath.Join(dir, "log"),
	}, nil, nil
}
