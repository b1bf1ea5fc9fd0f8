package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// TestOurCoreDNSStartsEveryCorefile starts each Corefile of the repository with
// our build, as a plain daemon from a snapshot file (behaviours D7, D10).
func TestOurCoreDNSStartsEveryCorefile(t *testing.T) {
	corefiles := find(t, root(t), func(path string) bool {
		return strings.HasSuffix(path, "/Corefile") && !strings.Contains(path, "/bin/") && !strings.Contains(path, "/e2e/node/")
	})
	require.NotEmpty(t, corefiles)
	for _, corefile := range corefiles {
		t.Run(strings.TrimPrefix(corefile, root(t)+"/"), func(t *testing.T) {
			host := lab.ForTest(t).MustHost(t, "dns")
			state := t.TempDir()
			p, err := host.Start(lab.Spec{
				Args: []string{binary(t, "coredns"), "-conf", corefile},
				Env: []string{
					"OOOI_DNS_PORT=0", "OOOI_SERVER_IP=127.0.0.2", "POD_IP=127.0.0.1", "OOOI_FENCE=on",
					"OOOI_SNAPSHOT=" + root(t, "e2e", "snapshots", "dns.json"), "OOOI_STATE_DIR=" + state,
				},
			})
			require.NoError(t, err)
			require.NoError(t, lab.Until(t.Context(), time.Minute, "the snapshot in force", func(context.Context) error {
				if err := p.Running(); err != nil {
					return err
				}
				if !strings.Contains(p.Output(), "in force") {
					return errors.New(p.Output())
				}
				return nil
			}))
			require.NoError(t, p.Stop(time.Minute))
		})
	}
}
