package app

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/xds-manager/internal/metrics"
	"github.com/densityops/oooi/xds-manager/internal/routes"
	"github.com/densityops/oooi/xds-manager/internal/translate"
)

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	return string(b)
}

// found is the set of first groups, sorted.
func found(text, pattern string) []string {
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The README is what people configure by: its table has every flag with its
// variable, and no other.
func TestTheReadmeHasEveryFlag(t *testing.T) {
	var o Options
	fs := newFlags("")
	o.serveFlags(fs)
	var want []string
	fs.VisitAll(func(f *flag.Flag) {
		variable := regexp.MustCompile(`\(\$(\w+)\)`).FindStringSubmatch(f.Usage)
		require.NotNil(t, variable, f.Name)
		want = append(want, f.Name+" "+variable[1])
	})
	slices.Sort(want)
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)[^`]*` \\| `(\\w+)` \\|").FindAllStringSubmatch(readme(t), -1) {
		got = append(got, m[1]+" "+m[2])
	}
	slices.Sort(got)
	require.Equal(t, want, got)
}

func TestTheReadmeHasEveryMetric(t *testing.T) {
	families, err := filledMetrics().Registry.Gather()
	require.NoError(t, err)
	var want []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "oooi_") {
			want = append(want, f.GetName())
		}
	}
	require.Equal(t, want, found(readme(t), "`(oooi_xds_[a-z_]+)[{`]"))
}

// filledMetrics has a value for every label.
func filledMetrics() *metrics.Metrics {
	m := metrics.New("v")
	m.Acknowledged("x.Cluster", 1)
	m.Rejected("x.Cluster", 1)
	m.Envoy(true, true, "v")
	m.Applied(time.Unix(1, 0), "v", 1, 0)
	m.Problems(map[string]int{"x": 1})
	m.Lookup(true)
	m.StatusWrite(true)
	return m
}

func TestTheReadmeHasEveryReason(t *testing.T) {
	want := []string{
		ReasonSnapshotInvalid, ReasonConfigRejected, ReasonAddressNotAssigned, ReasonForwardingEnabled, ReasonEndpointUnresolved,
		ReasonSnapshotNotKept, ReasonTranslationRejected, ReasonVIPUnreachable, translate.ReasonBrokenReference, routes.ReasonInvalidBackend, routes.ReasonDuplicateBackend,
		routes.ReasonDuplicateHostname, routes.ReasonDuplicateSourceIP, routes.ReasonAmbiguousFallback, routes.ReasonPortConflict,
		routes.ReasonInvalidListener, routes.ReasonNoValidBackend,
	}
	slices.Sort(want)
	_, table, ok := strings.Cut(readme(t), "## Problems")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "##")
	var got []string
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		got = append(got, found(first, "`([A-Z][A-Za-z]+)`")...)
	}
	slices.Sort(got)
	require.Equal(t, want, got)
}
