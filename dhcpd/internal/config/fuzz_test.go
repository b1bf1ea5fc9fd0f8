package config

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
)

// hazards 40, 47: whatever a snapshot holds, reading it ends, and what comes of
// it is complete or refused.
func FuzzSnapshot(f *testing.F) {
	whole, err := protojson.Marshal(snapshot(fixture()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for _, s := range []string{
		`{"dhcp":{"range":"all"}}`, `{"dhcp":{"relays":["x",[7]]}}`, `[]`, `{"a":{"b":[1,{"c":2}]}}`, "\x1f\x8b\x08",
		`{"dhcp":{"cidr":"0.0.0.0/0","gateway":"0.0.0.1","serverIp":"255.255.255.254","range":{"start":"0.0.0.0","end":"255.255.255.255"},` +
			`"reservations":[{"macAddress":"2:0:0:0:0:1","ip":"0.0.0.9"}],"options":[{"code":121,"value":"AA=="}]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := DecodeStrict(b); err != nil && err.Error() == "" {
			t.Fatal("an error without words")
		}
		s, err := Decode(b)
		if err != nil {
			return
		}
		c, err := From(s)
		if err != nil {
			return
		}
		if !c.Prefix.Contains(c.ServerIP) || !c.Prefix.Contains(c.Gateway) || c.Lease.LeaseTime < minLease || c.Lease.LeaseTime > maxLease {
			t.Fatalf("%+v", c)
		}
		again, err := Encode(s)
		if err != nil {
			return // not valid UTF-8
		}
		var back *agentpb.Snapshot
		if back, err = Decode(again); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if d, err := From(back); err != nil || d.Version != c.Version {
			t.Fatalf("read again it is another: %v", err)
		}
	})
}
