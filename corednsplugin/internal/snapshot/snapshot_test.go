package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/densityops/oooi/corednsplugin/internal/agentpb"
	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

func example(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "snapshot.json"))
	require.NoError(t, err)
	return data
}

func pack(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return buf.Bytes()
}

// Plain and gzipped files hold the same snapshot, and its version is that of
// its content.
func TestDecode(t *testing.T) {
	plain, err := snapshot.Decode(example(t))
	require.NoError(t, err)
	packed, err := snapshot.Decode(pack(t, example(t)))
	require.NoError(t, err)
	require.True(t, proto.Equal(plain, packed))
	a, err := snapshot.Parse(plain)
	require.NoError(t, err)
	require.Empty(t, a.Problems)
	require.Len(t, a.Records, 12)
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", a.Version)

	raw, err := snapshot.Encode(plain)
	require.NoError(t, err)
	again, err := snapshot.Decode(raw)
	require.NoError(t, err)
	require.True(t, proto.Equal(plain, again))

	plain.Version = "sha256:given"
	b, err := snapshot.Parse(plain)
	require.NoError(t, err)
	require.Equal(t, "sha256:given", b.Version)
}

func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "decoding snapshot"},
		{"text", []byte("no json"), "decoding snapshot"},
		{"a torn file", example(t)[:200], "decoding snapshot"},
		{"torn gzip", pack(t, example(t))[:100], "decompressing snapshot"},
		{"gzip's magic alone", []byte{0x1f, 0x8b}, "decompressing snapshot"},
		{"a gzip bomb", pack(t, bytes.Repeat([]byte(" "), 65<<20)), snapshot.ErrTooLarge.Error()},
		{"a plain file that is too large", bytes.Repeat([]byte(" "), 65<<20), snapshot.ErrTooLarge.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := snapshot.Decode(tc.data)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// Architecture R5: unknown fields are ignored on read.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	s, err := snapshot.Decode([]byte(`{"future": 1, "dns": {"cidr": "192.0.2.0/24", "serverIp": "192.0.2.3", "future": {"x": []}}}`))
	require.NoError(t, err)
	_, err = snapshot.Parse(s)
	require.NoError(t, err)
}

// What somebody wrote wrongly by hand is named with its field and its value.
func TestStrictErrorsNameFieldAndValue(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		want       []string
	}{
		{"a number for a string", "{\n \"dns\": {\"cidr\": 5}}", []string{"line 2:18", "cidr", "5"}},
		{"an object for a list", `{"dns": {"records": {"name": "a"}}}`, []string{"line 1:21", `"records": {"name": "a"}`}},
		{"a list for an object", `{"dns": ["a"]}`, []string{"line 1:9", `"dns": ["a"]`}},
		{"a number in a list of strings", `{"dns": {"zones": ["a", 7]}}`, []string{"zones", "7"}},
		{"a policy that is none", `{"dns": {"records": [{"name": "a", "vlan": {"policy": "Answer"}}]}}`, []string{"policy", "Answer"}},
		{"a TTL below zero", `{"dns": {"ttlSeconds": -1}}`, []string{"ttlSeconds", "-1"}},
		{"an unknown field", `{"dns": {"recrods": []}}`, []string{"dns.recrods: ", "unknown field", `"recrods": []`}},
		{"an unknown field far inside", "{\"dns\": {\"zones\": [\"a\"],\n \"records\": [{\"name\": \"ä\", \"pod\": {}}, {\"vlan\": {\"polcy\": 1}}]}}", []string{"dns.records[1].vlan.polcy: ", `"polcy": 1`}},
		{"a value of a wrong kind inside", `{"dns": {"records": [{}, {"name": 7}]}}`, []string{"dns.records[1].name: ", "7"}},
		{"a list for a word", `{"dns": {"cidr": ["x"]}}`, []string{"dns.cidr: "}},
		{"a field twice", `{"dns": {"cidr": "a", "cidr": "b"}}`, []string{"duplicate", `"cidr": "b"`}},
		{"two components", `{"dns": {}, "dhcp": {}}`, []string{`"dhcp"`, "already set"}},
		{"a file that ends early", `{"dns": {"cidr": "192.0`, []string{"EOF"}},
		{"something after the end", `{} x`, []string{"line 1:4", "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := snapshot.DecodeStrict([]byte(tc.data))
			require.Error(t, err)
			for _, w := range tc.want {
				require.ErrorContains(t, err, w)
			}
			require.NotContains(t, err.Error(), "\u00a0")
			require.Less(t, len(err.Error()), 250)
		})
	}
	_, err := snapshot.DecodeStrict(example(t))
	require.NoError(t, err)
}

func dnsConfig(change func(*agentpb.DNSConfig)) *agentpb.Snapshot {
	c := &agentpb.DNSConfig{Cidr: "192.0.2.0/24", ServerIp: "192.0.2.3"}
	change(c)
	return &agentpb.Snapshot{Config: &agentpb.Snapshot_Dns{Dns: c}}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    *agentpb.Snapshot
		want string
	}{
		{"a snapshot of another component", &agentpb.Snapshot{Config: &agentpb.Snapshot_Dhcp{Dhcp: &agentpb.DHCPConfig{}}}, snapshot.ErrNoDNS.Error()},
		{"an empty snapshot", &agentpb.Snapshot{}, snapshot.ErrNoDNS.Error()},
		{"a bad CIDR", dnsConfig(func(c *agentpb.DNSConfig) { c.Cidr = "192.0.2.0" }), "is not a CIDR"},
		{"a CIDR with host bits", dnsConfig(func(c *agentpb.DNSConfig) { c.Cidr = "192.0.2.5/24" }), "host bits"},
		{"an IPv6 CIDR", dnsConfig(func(c *agentpb.DNSConfig) { c.Cidr = "2001:db8::/64" }), "IPv6"},
		{"a server address that is none", dnsConfig(func(c *agentpb.DNSConfig) { c.ServerIp = "dns.test" }), "is not an IP address"},
		{"a server address elsewhere", dnsConfig(func(c *agentpb.DNSConfig) { c.ServerIp = "198.51.100.3" }), "not inside cidr"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := snapshot.Parse(tc.s)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func answer(addrs ...string) *agentpb.DNSView {
	return &agentpb.DNSView{Policy: agentpb.DNSPolicy_DNS_POLICY_ANSWER, Addresses: addrs}
}

// One faulty part never stops the others. Hazards 101, 145, 149.
func TestFaultyPartsAreLeftOutAndNamed(t *testing.T) {
	long := strings.Repeat("a", 64)
	nine := []string{"192.0.2.11", "192.0.2.12", "192.0.2.13", "192.0.2.14", "192.0.2.15", "192.0.2.16", "192.0.2.17", "192.0.2.18", "192.0.2.19"}
	for _, tc := range []struct {
		name   string
		change func(*agentpb.DNSConfig)
		want   string
	}{
		{"a record with a bad label", record("api..test", answer("192.0.2.4")), snapshot.ReasonInvalidRecord},
		{"a record with a label of 64", record(long+".test", answer("192.0.2.4")), snapshot.ReasonInvalidRecord},
		{"a record that is too long", record(strings.Repeat("abcdefg.", 32)+"test", answer("192.0.2.4")), snapshot.ReasonInvalidRecord},
		{"a record with a star inside", record("a.*.test", answer("192.0.2.4")), snapshot.ReasonInvalidRecord},
		{"a record without a name", record("", answer("192.0.2.4")), snapshot.ReasonInvalidRecord},
		{"a record with international letters", record("bücher.test", answer("192.0.2.4")), snapshot.ReasonInvalidRecord},
		{"a record with a name as address", record("api.test", answer("proxy.svc")), snapshot.ReasonInvalidRecord},
		{"a record with an IPv6 address", record("api.test", answer("2001:db8::1")), snapshot.ReasonInvalidRecord},
		{"a record without an address", record("api.test", answer()), snapshot.ReasonInvalidRecord},
		{"a record with nine addresses", record("api.test", answer(nine...)), snapshot.ReasonInvalidRecord},
		{"a record with a policy from the future", record("api.test", &agentpb.DNSView{Policy: 9}), snapshot.ReasonInvalidRecord},
		{"a bad pod view", func(c *agentpb.DNSConfig) {
			c.Records = append(c.Records, &agentpb.DNSRecord{Name: "api.test", Vlan: answer("192.0.2.4"), Pod: answer("x")})
		}, snapshot.ReasonInvalidRecord},
		{"two records of one name", func(c *agentpb.DNSConfig) {
			record("good.test", answer("192.0.2.99"))(c)
		}, snapshot.ReasonInvalidRecord},
		{"a zone that is none", func(c *agentpb.DNSConfig) { c.Zones = append(c.Zones, "-") }, snapshot.ReasonInvalidZone},
		{"a source with host bits", func(c *agentpb.DNSConfig) { c.AdditionalSourceCidrs = []string{"203.0.113.1/24"} }, snapshot.ReasonInvalidSource},
		{"an upstream that is none", func(c *agentpb.DNSConfig) { c.Upstreams = []string{"dns.test"} }, snapshot.ReasonInvalidUpstream},
		{"an upstream of 0.0.0.0", func(c *agentpb.DNSConfig) { c.Upstreams = []string{"0.0.0.0"} }, snapshot.ReasonInvalidUpstream},
		{"an upstream by IPv6", func(c *agentpb.DNSConfig) { c.Upstreams = []string{"2001:db8::53"} }, snapshot.ReasonInvalidUpstream},
		{"an upstream on port 0", func(c *agentpb.DNSConfig) { c.Upstreams = []string{"198.51.100.53:0"} }, snapshot.ReasonInvalidUpstream},
		{"a host with a bad name", host("_", "192.0.2.1", "*.x"), snapshot.ReasonInvalidHost},
		{"a host with a bad address", host("", "192.0.2", "vm.test"), snapshot.ReasonInvalidHost},
		{"a host outside the CIDR", host("", "198.51.100.1", "vm.test"), snapshot.ReasonInvalidHost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := dnsConfig(func(c *agentpb.DNSConfig) {
				c.Records = []*agentpb.DNSRecord{{Name: "good.test", Vlan: answer("192.0.2.4"), Pod: answer("192.0.2.4")}}
				tc.change(c)
			})
			c, err := snapshot.Parse(s)
			require.NoError(t, err)
			require.Len(t, c.Records, 1)
			require.Equal(t, "good.test", c.Records[0].Name)
			require.Equal(t, "192.0.2.4", c.Records[0].VLAN.Addresses[0].String())
			require.Len(t, c.Problems, 1)
			require.Equal(t, tc.want, c.Problems[0].Reason)
		})
	}
}

func record(name string, v *agentpb.DNSView) func(*agentpb.DNSConfig) {
	return func(c *agentpb.DNSConfig) {
		c.Records = append(c.Records, &agentpb.DNSRecord{Name: name, Vlan: v, Pod: v})
	}
}

func host(_, address, name string) func(*agentpb.DNSConfig) {
	return func(c *agentpb.DNSConfig) { c.Hosts = append(c.Hosts, &agentpb.DNSHost{Name: name, Address: address}) }
}

// Hazard 145: case and a trailing dot make no other name; TTL is bounded.
func TestNormalisation(t *testing.T) {
	c, err := snapshot.Parse(dnsConfig(func(c *agentpb.DNSConfig) {
		c.Zones = []string{"D.Test.", "d.test"}
		c.TtlSeconds = 3600
		c.AdditionalSourceCidrs = []string{"203.0.113.0/24", "198.51.100.0/24", "203.0.113.0/24"}
		c.Upstreams = []string{"198.51.100.53", "198.51.100.53:53", "resolv.conf", "resolv.conf"}
		c.OwnAddresses = []string{"172.30.20.2", "junk", "172.30.20.2"}
		record("API.d.Test.", answer("192.0.2.5", "192.0.2.4", "192.0.2.5"))(c)
		record("*.Apps.d.test", answer("192.0.2.5"))(c)
		host("", "192.0.2.9", "VM.d.test.")(c)
	}))
	require.NoError(t, err)
	require.Empty(t, c.Problems)
	require.Equal(t, []string{"d.test"}, c.Zones)
	require.Equal(t, "*.apps.d.test", c.Records[0].Name)
	require.Equal(t, "api.d.test", c.Records[1].Name)
	require.Equal(t, "192.0.2.4", c.Records[1].VLAN.Addresses[0].String())
	require.Len(t, c.Records[1].VLAN.Addresses, 2)
	require.Equal(t, "vm.d.test", c.Hosts[0].Name)
	require.Equal(t, uint32(30), c.TTL)
	require.Len(t, c.Upstreams, 2)
	require.Len(t, c.Own, 1)
	require.Equal(t, "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24", join(c))
}

func join(c snapshot.Config) string {
	var out []string
	for _, p := range c.Sources {
		out = append(out, p.String())
	}
	return strings.Join(out, " ")
}

// Equal content gives an equal Config, whatever the order.
func TestOrderDoesNotMatter(t *testing.T) {
	s, err := snapshot.Decode(example(t))
	require.NoError(t, err)
	s.Version = "v"
	want, err := snapshot.Parse(s)
	require.NoError(t, err)
	d := s.GetDns()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that repeats itself
		r.Shuffle(len(d.Records), func(i, j int) { d.Records[i], d.Records[j] = d.Records[j], d.Records[i] })
		r.Shuffle(len(d.Zones), func(i, j int) { d.Zones[i], d.Zones[j] = d.Zones[j], d.Zones[i] })
		got, err := snapshot.Parse(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// FuzzLoad: no file, however broken, makes the loader panic, and what it takes
// is within its own bounds.
func FuzzLoad(f *testing.F) {
	f.Add(example(f))
	f.Add(pack(f, example(f)))
	f.Add([]byte(`{"dns":{"cidr":"0.0.0.0/0","serverIp":"1.1.1.1","records":[{"name":"*."}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = snapshot.DecodeStrict(data)
		s, err := snapshot.Decode(data)
		if err != nil {
			return
		}
		c, err := snapshot.Parse(s)
		if err != nil {
			return
		}
		require.True(t, c.CIDR.Contains(c.ServerIP))
		require.LessOrEqual(t, c.TTL, uint32(snapshot.MaxTTL))
		for _, r := range c.Records {
			require.LessOrEqual(t, len(r.Name), 253)
			require.LessOrEqual(t, len(r.VLAN.Addresses), snapshot.MaxAddresses)
		}
	})
}
