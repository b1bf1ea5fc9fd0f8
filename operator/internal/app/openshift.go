package app

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// groupSecurity is the API group of SecurityContextConstraints.
const groupSecurity = "security.openshift.io"

// openShift says whether the pods are bound to SecurityContextConstraints: they
// are asked for, and the cluster has them. The bundle asks for them everywhere,
// and OLM starts a new version before it applies a Subscription's settings, so
// on other clusters the flag alone would roll the pods at every upgrade.
func (o Options) openShift(disco discovery.ServerGroupsInterface) (bool, error) {
	if !o.OpenShift {
		return false, nil
	}
	groups, err := disco.ServerGroups()
	if err != nil {
		return false, fmt.Errorf("looking for %s: %w", groupSecurity, err)
	}
	served := slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == groupSecurity })
	if !served {
		o.Logger.Warn("--enable-openshift has no effect: the cluster has no SecurityContextConstraints")
	}
	return served, nil
}
