package offline_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/offline"
)

// machineDocument is a Machine among the documents of a case.
var machineDocument = regexp.MustCompile(`(?m)^kind: Machine$`)

// case C42, behaviour F1, hazards 6, 250: a Machine's addresses vanish for 90 s, and
// then for longer than a lease. Each plan starts from the status that the one before
// has left.
func TestAGapInAMachinesAddressesChangesNothingForTheProxy(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/one-cluster/in.yaml")
	require.NoError(t, err)
	var others []string
	for document := range strings.SplitSeq(string(text), "---\n") {
		if !machineDocument.MatchString(document) {
			others = append(others, document)
		}
	}
	var status v1alpha1.InfraClusterAttachmentStatus
	at := func(machine string, after time.Duration) (proxy string, stale bool) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("../facts/testdata/cases", machine+".yaml"))
		require.NoError(t, err)
		var o offline.Objects
		require.NoError(t, o.Read("in.yaml", []byte(strings.Join(append(others, string(text)), "---\n"))))
		require.Len(t, o.World.Machines, 1)
		require.Len(t, o.World.Attachments, 1)
		if status.Observed.Workers != nil {
			o.World.Attachments[0].Status = status
		}
		options, _ := optionsOf(t, nil)
		options.Now = now.Add(after)
		r, err := offline.Render(&o, options)
		require.NoError(t, err)
		o.World.Attachments[0].Status.DeepCopyInto(&status)
		for _, s := range r.Snapshots {
			if s.Component() == "proxy" {
				pretty, err := s.Pretty()
				require.NoError(t, err)
				proxy = string(pretty)
			}
		}
		for _, w := range status.Observed.Workers {
			stale = stale || w.LastSeen != nil
		}
		return proxy, stale
	}
	before, stale := at("machine-new-capk", 0)
	require.Contains(t, before, `"192.0.2.101/32"`)
	require.False(t, stale)
	for _, c := range []struct {
		name    string
		machine string
		after   time.Duration
		stale   bool
	}{
		{"the gap begins", "machine-no-ip", time.Second, true},
		{"the gap lasts", "machine-no-ip", 89 * time.Second, true},
		{"the address is back", "machine-new-capk", 90 * time.Second, false},
		{"it vanishes again", "machine-no-ip", 2 * time.Minute, true},
		{"it is away for a whole lease", "machine-no-ip", 61 * time.Minute, true},
	} {
		proxy, stale := at(c.machine, c.after)
		require.Equal(t, before, proxy, c.name)
		require.Equal(t, c.stale, stale, c.name)
	}
	proxy, _ := at("machine-no-ip", 63*time.Minute)
	require.NotContains(t, proxy, "192.0.2.101", "held for a lease and no longer")
	require.Empty(t, status.Observed.Workers)
}
