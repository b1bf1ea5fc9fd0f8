package facts_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
)

// outputOf is what the operator writes because of a Machine: the attachment's facts
// and the specs of the three children. It also gives the sources of the API's alias.
func outputOf(t *testing.T, m facts.Machine) (output string, sources []string) {
	t.Helper()
	w := world(func(w *facts.World) {
		w.Machines = []facts.Machine{m}
		s := &w.Infras[0].Spec.InfraComponents
		s.DHCP = v1alpha1.InfraDHCP{ServerIP: "192.0.2.2", RangeStart: "192.0.2.100", RangeEnd: "192.0.2.199"}
		s.DNS, s.Proxy = v1alpha1.InfraDNS{ServerIP: "192.0.2.3"}, v1alpha1.InfraProxy{ServerIP: "192.0.2.4"}
	})
	a := attachment()
	f := facts.ForAttachment(w, a, noon)
	require.True(t, f.Admitted)
	a.Status.Observed, a.Status.ControlPlaneNamespace = f.Observed, v1alpha1.NamespaceName(f.ControlPlaneNamespace)
	w.Attachments = []v1alpha1.InfraClusterAttachment{*a}
	p := plan.For(facts.Inputs(w, &w.Infras[0]))
	for _, b := range p.Proxy.Spec.Backends {
		if b.Name == "example-hcp-a/alias-api" {
			sources = b.SourcePrefixRanges
		}
	}
	text, err := json.Marshal([]any{f.Observed, p.DHCP.Spec, p.DNS.Spec, p.Proxy.Spec, p.InForce})
	require.NoError(t, err)
	return string(text), sources
}

// case C39, hazard 5: both shapes of a Machine give exactly one source, and in every
// order of their entries the same bytes.
func TestCaseMachineAddressOrderChangesNoByte(t *testing.T) {
	t.Parallel()
	var want string
	for _, name := range []string{"machine-old-capk", "machine-new-capk"} {
		t.Run(name, func(t *testing.T) {
			orders := map[string]func([]any){"as it is": asIs, "turned round": slices.Reverse[[]any]}
			for seed := range uint64(50) {
				orders[fmt.Sprintf("shuffled by %d", seed)] = func(list []any) {
					rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				}
			}
			for order, sort := range orders {
				output, sources := outputOf(t, caseMachine(t, name, sort))
				require.Equal(t, []string{"192.0.2.101/32"}, sources, order)
				if want == "" {
					want = output
				}
				require.Equal(t, want, output, order)
			}
		})
	}
}
