package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// ipamProblem: an interface that got its address from a CNI plugin is served by
// virt-launcher's own DHCP server, which answers its guest first. Static addresses
// go to those pods alone that ask for one, as ours do.
func (w *world) ipamProblem() []Problem {
	var named []string
	own := w.attachment(w.own.nad)
	for _, a := range w.in.NetworkAttachments {
		if (a.Key == own.Key || sameNetwork(a, own)) && a.IPAM != "" && a.IPAM != "static" {
			named = append(named, fmt.Sprintf("%s (%s)", a.Key, a.IPAM))
		}
	}
	if len(named) == 0 {
		return nil
	}
	slices.Sort(named)
	return []Problem{{Kind: "Infra", Key: w.in.Infra.Key, Reason: Reason{v1alpha1.ReasonNADHasIPAM, fmt.Sprintf(
		"address management of the NetworkAttachmentDefinitions %s gives addresses to virtual machines, and virt-launcher hands them out before our DHCP can; "+
			"remove ipam, or make it static", strings.Join(named, ", "))}}}
}
