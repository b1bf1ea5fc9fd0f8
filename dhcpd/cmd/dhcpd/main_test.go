package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/version"
)

func TestTheCommandLine(t *testing.T) {
	for _, c := range []struct {
		name      string
		args      []string
		code      int
		out, errs string
	}{
		{"nothing", nil, 2, "", "serve"},
		{"help", []string{"--help"}, 0, "leases", ""},
		{"help of a command", []string{"check", "--help"}, 0, "dhcpd check FILE", ""},
		{"the version", []string{"--version"}, 0, "dhcpd " + version.Module + " contract " + version.Contract + "\n", ""},
		{"an unknown command", []string{"chekc"}, 2, "", `unknown command "chekc"`},
		{"nothing to serve", []string{"serve"}, 2, "", "nothing to serve"},
		{"a hub without a port", []string{"serve", "--hub", "foo"}, 2, "", `invalid value "foo" for flag -hub: want HOST:PORT`},
		{"machines that are nowhere", []string{"serve", "--snapshot", "s.json", "--objects", "/nowhere/machines"}, 1, "", "--objects: listing machines: open /nowhere/machines"},
		{"a file that is not there", []string{"check", "/nowhere/s.json"}, 1, "", "/nowhere/s.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, c.code, run(c.args, &out, &errs))
			require.Contains(t, out.String(), c.out)
			require.Contains(t, errs.String(), c.errs)
			require.Equal(t, c.out == "", out.Len() == 0)
			require.Equal(t, c.errs == "", errs.Len() == 0)
		})
	}
}
