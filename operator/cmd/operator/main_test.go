package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/app"
)

func TestTheExitCodeSaysWhoseFaultItIs(t *testing.T) {
	for _, c := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"help", []string{"--help"}, 0, "operator render -f", ""},
		{"the version", []string{"--version"}, 0, app.VersionLine() + "\n", ""},
		{"help of serve names the variables", []string{"serve", "--help"}, 0, "($OOOI_LEADER_ELECT)", ""},
		{"also those of what is true or false", []string{"serve", "--help"}, 0, "($OOOI_ENABLE_OPENSHIFT)", ""},
		{"help of render", []string{"render", "--help"}, 0, "-strict", ""},
		{"a command that is none", []string{"bogus"}, 2, "", `unknown command "bogus"`},
		{"a flag that is none", []string{"serve", "--colour"}, 2, "", "colour"},
		{"a hub to render without a port", []string{"render", "--hub", "foo", "-f", "x"}, 2, "", `invalid value "foo" for flag -hub: want HOST:PORT`},
		{"nothing to render", []string{"render"}, 2, "", "needs at least one -f FILE"},
		{"a file that is gone", []string{"render", "-f", "gone.yaml"}, 1, "", "gone.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.code, run(c.args, &stdout, &stderr), stderr.String())
			require.Contains(t, stdout.String(), c.stdout)
			require.Contains(t, stderr.String(), c.stderr)
		})
	}
}
