package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// bench is one thing to measure: a program with a configuration.
type bench struct {
	// name of the peer, routes and workers that it is configured with.
	name    string
	routes  int
	workers int
	// configure writes files into dir and says what to run, in order; the last
	// one is the proxy.
	configure func(b bench, dir string) ([][]string, error)
}

func (b bench) id() string {
	if b.workers > 0 {
		return fmt.Sprintf("%s/%d+%dw", b.name, b.routes, b.workers)
	}
	return fmt.Sprintf("%s/%d", b.name, b.routes)
}

const (
	proxyIP = "198.18.0.4"
	port    = 443
	backend = "198.18.0.9:7443"
)

var frontend = fmt.Sprintf("%s:%d", proxyIP, port)

// names are the routes: four services of each hosted cluster.
func names(routes int) []string {
	out := make([]string, 0, routes)
	for i := range routes / 4 {
		for _, s := range []string{"api", "oauth", "ignition", "konnectivity"} {
			out = append(out, fmt.Sprintf("%s.hcp-%d.clusters.example.com", s, i))
		}
	}
	return out
}

func target(routes int) string { n := names(routes); return n[len(n)-1] }

func write(dir, name string, content []byte) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, content, 0o644)
}

func writeJSON(dir, name string, v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return write(dir, name, b)
}

const haproxyHead = `global
  maxconn 6000
  nbthread 2
defaults
  mode tcp
  timeout connect 10s
  timeout client 300s
  timeout server 300s
  option dontlognull
  option splice-auto
frontend f
  bind %s
  tcp-request inspect-delay 5s
  tcp-request content accept if { req_ssl_hello_type 1 }
`

// haproxyACL is the shape that HyperShift's shared ingress has: one ACL for
// each route.
func haproxyACL(b bench, dir string) ([][]string, error) {
	return haproxy(b, dir, func(c *strings.Builder, ns []string) error {
		for i, n := range ns {
			fmt.Fprintf(c, "  acl is_%d req_ssl_sni -i %s\n", i, n)
		}
		for i := range ns {
			fmt.Fprintf(c, "  use_backend b%d if is_%d\n", i, i)
		}
		return nil
	})
}

// haproxyMap is what an expert would write: one look-up in a map.
func haproxyMap(b bench, dir string) ([][]string, error) {
	return haproxy(b, dir, func(c *strings.Builder, ns []string) error {
		var m strings.Builder
		for i, n := range ns {
			fmt.Fprintf(&m, "%s b%d\n", n, i)
		}
		path, err := write(dir, "map", []byte(m.String()))
		fmt.Fprintf(c, "  use_backend %%[req_ssl_sni,lower,map_str(%s,none)]\n", path)
		return err
	})
}

func haproxy(b bench, dir string, routes func(*strings.Builder, []string) error) ([][]string, error) {
	var c strings.Builder
	fmt.Fprintf(&c, haproxyHead, frontend)
	ns := names(b.routes)
	if err := routes(&c, ns); err != nil {
		return nil, err
	}
	c.WriteString("  default_backend none\nbackend none\n  tcp-request content reject\n")
	for i := range ns {
		fmt.Fprintf(&c, "backend b%d\n  server s %s\n", i, backend)
	}
	path, err := write(dir, "haproxy.cfg", []byte(c.String()))
	return [][]string{{"haproxy", "-f", path, "-db"}}, err
}

func nginx(b bench, dir string) ([][]string, error) {
	var m strings.Builder
	for _, n := range names(b.routes) {
		fmt.Fprintf(&m, "  %s %s;\n", n, backend)
	}
	c := fmt.Sprintf(`load_module /usr/lib/nginx/modules/ngx_stream_module.so;
worker_processes 2;
daemon off;
pid %[1]s/pid;
error_log %[1]s/err warn;
worker_rlimit_nofile 20000;
events { worker_connections 9000; multi_accept on; }
stream {
 map_hash_max_size 65536; map_hash_bucket_size 128;
 map $ssl_preread_server_name $b {
%[2]s }
 server { listen %[3]s backlog=4096; ssl_preread on; proxy_connect_timeout 10s; proxy_timeout 300s; proxy_pass $b; }
}
`, dir, m.String(), frontend)
	path, err := write(dir, "nginx.conf", []byte(c))
	return [][]string{{"nginx", "-c", path, "-p", dir}}, err
}

type object = map[string]any

const typePrefix = "type.googleapis.com/envoy.extensions.filters."

// bareEnvoy is the least that routes these names, written by hand.
func bareEnvoy(b bench, dir string) ([][]string, error) {
	var chains, clusters []any
	host, _, _ := strings.Cut(backend, ":")
	for i, n := range names(b.routes) {
		c := fmt.Sprintf("c%d", i)
		chains = append(chains, object{"filter_chain_match": object{"server_names": []any{n}}, "filters": []any{object{
			"name":         "envoy.filters.network.tcp_proxy",
			"typed_config": object{"@type": typePrefix + "network.tcp_proxy.v3.TcpProxy", "stat_prefix": c, "cluster": c},
		}}})
		clusters = append(clusters, object{
			"name": c, "type": "STATIC", "connect_timeout": "10s",
			"circuit_breakers": object{"thresholds": []any{object{"max_connections": 20000, "max_pending_requests": 20000}}},
			"load_assignment": object{"cluster_name": c, "endpoints": []any{object{"lb_endpoints": []any{object{
				"endpoint": object{"address": object{"socket_address": object{"address": host, "port_value": 7443}}},
			}}}}},
		})
	}
	path, err := writeJSON(dir, "envoy.json", object{"static_resources": object{"clusters": clusters, "listeners": []any{object{
		"name": "l", "address": object{"socket_address": object{"address": proxyIP, "port_value": port}}, "filter_chains": chains,
		"listener_filters": []any{object{"name": "envoy.filters.listener.tls_inspector", "typed_config": object{"@type": typePrefix + "listener.tls_inspector.v3.TlsInspector"}}},
	}}}})
	return [][]string{{envoyPath, "-c", path, "--concurrency", "2", "--disable-hot-restart", "-l", "error"}}, err
}

// ours is the Envoy that xds-manager configures, with everything that a real
// snapshot has: aliases and the fallback by source where there are workers.
func ours(b bench, dir string) ([][]string, error) { return managed(b, dir, false) }

func oursWithLog(b bench, dir string) ([][]string, error) { return managed(b, dir, true) }

func managed(b bench, dir string, accessLog bool) ([][]string, error) {
	ep := []any{object{"ip": strings.Split(backend, ":")[0], "port": 7443}}
	var backends []any
	for i, n := range names(b.routes) {
		backends = append(backends, object{"name": fmt.Sprintf("r%d", i), "hostnames": []any{n}, "port": port, "protocol": "PROXY_PROTOCOL_TLS", "endpoints": ep})
	}
	attachments := b.routes / 4
	for a := range attachments {
		var sources []any
		for w := a; w < b.workers; w += attachments {
			sources = append(sources, fmt.Sprintf("198.19.%d.%d/32", w/250, 1+w%250))
		}
		if sources == nil {
			continue
		}
		aliases := []any{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
		backends = append(backends,
			object{"name": fmt.Sprintf("a%d/alias", a), "hostnames": aliases, "port": port, "protocol": "PROXY_PROTOCOL_TLS", "sourcePrefixRanges": sources, "endpoints": ep},
			object{"name": fmt.Sprintf("a%d/fallback", a), "port": port, "protocol": "PROXY_PROTOCOL_TLS", "sourcePrefixRanges": sources, "endpoints": ep})
	}
	snapshot, err := writeJSON(dir, "snapshot.json", object{"proxy": object{
		"serverIp": proxyIP, "cidr": "198.18.0.0/15", "backends": backends, "accessLog": accessLog, "logLevel": "error",
	}})
	if err != nil {
		return nil, err
	}
	sockets := []string{"--xds-socket", dir + "/xds.sock", "--admin-socket", dir + "/admin.sock"}
	boot := dir + "/bootstrap.yaml"
	return [][]string{
		append([]string{managerPath, "bootstrap", "--out", boot}, sockets...),
		append([]string{managerPath, "serve", "--snapshot", snapshot}, sockets...),
		{envoyPath, "-c", boot, "--concurrency", "2", "--disable-hot-restart", "-l", "error"},
	}, nil
}
