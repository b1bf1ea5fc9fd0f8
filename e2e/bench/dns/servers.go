package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Addresses from the benchmarking range (RFC 2544).
const (
	serverIP = "198.18.0.1"
	clientIP = "198.18.0.2"
	proxyIP  = "198.18.0.4"
	zone     = "clusters.example.com"
)

type binaries struct{ ours, stock string }

// server is one program in one set-up.
type server struct {
	name  string
	sizes []int
	env   []string
	// configure writes what it needs into dir and returns its command line.
	configure func(dir string, clusters int) ([]string, error)
}

func (b binaries) servers() []server {
	stock := func(name string, body func(dir string, clusters int) string) server {
		return server{name: name, sizes: []int{middle}, configure: func(dir string, clusters int) ([]string, error) {
			if err := writeZone(dir, clusters); err != nil {
				return nil, err
			}
			file := filepath.Join(dir, "Corefile")
			return []string{b.stock, "-quiet", "-conf", file}, write(file, body(dir, clusters))
		}}
	}
	return []server{
		{name: "ours", sizes: sizes, configure: b.oursConfig},
		stock("view-errors-prometheus-file", func(dir string, _ int) string {
			return views(func(string) string { return "file " + dir + "/zone" }, zone)
		}),
		stock("whoami", func(string, int) string {
			return fmt.Sprintf(".:53 {\n bind %s\n whoami\n}\n", serverIP)
		}),
		stock("file", func(dir string, _ int) string {
			return fmt.Sprintf("%s:53 {\n bind %s\n file %s/zone\n}\n", zone, serverIP, dir)
		}),
		stock("view-hosts-templates", func(dir string, clusters int) string {
			return views(func(string) string {
				return "hosts " + dir + "/hosts {\n  ttl 30\n  fallthrough\n }\n" + templates(clusters)
			}, ".")
		}),
		{name: "knot", sizes: []int{middle}, configure: knot},
		{name: "unbound", sizes: []int{middle}, configure: unbound},
	}
}

// views is a server block for the VLAN and one for everybody else, with errors
// and metrics as shipped.
func views(body func(view string) string, origin string) string {
	var out strings.Builder
	for _, v := range [][2]string{{"vlan", "198.18.0.0/24"}, {"all", "0.0.0.0/0"}} {
		fmt.Fprintf(&out, "%s:53 {\n bind %s\n view %s {\n  expr incidr(client_ip(), '%s')\n }\n errors\n prometheus 127.0.0.1:9153\n %s\n}\n",
			origin, serverIP, v[0], v[1], body(v[0]))
	}
	return out.String()
}

func templates(clusters int) string {
	var out strings.Builder
	for i := range clusters {
		fmt.Fprintf(&out, " template IN A apps.hcp-%d.%s {\n  answer \"{{ .Name }} 30 IN A %s\"\n }\n", i, zone, vip(i))
	}
	return out.String()
}

func vip(i int) string { return fmt.Sprintf("198.18.0.%d", 200+i%20) }

// each calls f for every exact name.
func each(clusters int, f func(name string)) {
	for i := range clusters {
		for _, n := range []string{"api", "api-int", "oauth", "ignition", "konnectivity"} {
			f(fmt.Sprintf("%s.hcp-%d.%s", n, i, zone))
		}
	}
}

// oursConfig is the snapshot that the operator would make.
func (b binaries) oursConfig(dir string, clusters int) ([]string, error) {
	return []string{b.ours, "--snapshot", filepath.Join(dir, "dns.json"), "--server-ip", serverIP}, writeSnapshot(dir, clusters, proxyIP)
}

func writeSnapshot(dir string, clusters int, proxy string) error {
	type view struct {
		Policy    string   `json:"policy"`
		Addresses []string `json:"addresses"`
	}
	type record struct {
		Name string `json:"name"`
		VLAN view   `json:"vlan"`
		Pod  view   `json:"pod"`
	}
	var records []record
	var zones []string
	add := func(name, ip string) {
		records = append(records, record{name, view{"DNS_POLICY_ANSWER", []string{ip}}, view{"DNS_POLICY_ANSWER", []string{"172.30.20.1"}}})
	}
	each(clusters, func(name string) { add(name, proxy) })
	for i := range clusters {
		add(fmt.Sprintf("*.apps.hcp-%d.%s", i, zone), vip(i))
		zones = append(zones, fmt.Sprintf("hcp-%d.%s", i, zone))
	}
	data, err := json.Marshal(map[string]any{"dns": map[string]any{
		"cidr": "198.18.0.0/24", "serverIp": serverIP, "zones": zones, "records": records, "ttlSeconds": 30,
	}})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "dns.json")
	if err := write(file+".new", string(data)); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// writeZone writes the same names as a zone file and as a hosts file.
func writeZone(dir string, clusters int) error {
	var z, h strings.Builder
	fmt.Fprintf(&z, "$ORIGIN %s.\n$TTL 30\n@ IN SOA ns root 1 3600 600 86400 5\n@ IN NS ns\nns IN A %s\n", zone, serverIP)
	each(clusters, func(name string) {
		fmt.Fprintf(&z, "%s. IN A %s\n", name, proxyIP)
		fmt.Fprintf(&h, "%s %s\n", proxyIP, name)
	})
	for i := range clusters {
		fmt.Fprintf(&z, "*.apps.hcp-%d.%s. IN A %s\n", i, zone, vip(i))
	}
	if err := write(filepath.Join(dir, "hosts"), h.String()); err != nil {
		return err
	}
	return write(filepath.Join(dir, "zone"), z.String())
}

func knot(dir string, clusters int) ([]string, error) {
	if err := writeZone(dir, clusters); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "knot.conf")
	return []string{"knotd", "-c", file}, write(file, fmt.Sprintf(`server:
  listen: %s@53
  rundir: %s
  udp-workers: 2
  tcp-workers: 1
  background-workers: 1
  user: root
database:
  storage: %s
log:
  - target: stderr
    any: warning
zone:
  - domain: %s
    file: %s/zone
    storage: %s
`, serverIP, dir, dir, zone, dir, dir))
}

func unbound(dir string, clusters int) ([]string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, `server:
  interface: %s
  num-threads: 2
  so-reuseport: yes
  access-control: 0.0.0.0/0 allow
  username: ""
  chroot: ""
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  module-config: "iterator"
  local-zone: "%s." static
`, serverIP, zone)
	each(clusters, func(name string) { fmt.Fprintf(&out, "  local-data: \"%s. 30 IN A %s\"\n", name, proxyIP) })
	for i := range clusters {
		fmt.Fprintf(&out, "  local-zone: \"apps.hcp-%d.%s.\" redirect\n  local-data: \"apps.hcp-%d.%s. 30 IN A %s\"\n", i, zone, i, zone, vip(i))
	}
	out.WriteString("remote-control:\n  control-enable: no\n")
	file := filepath.Join(dir, "unbound.conf")
	return []string{"unbound", "-d", "-c", file}, write(file, out.String())
}

func write(file, text string) error {
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // a benchmark's configuration
}
