package app

import (
	"github.com/densityops/oooi/operator/internal/controller/kinds"
)

// followed are the optional kinds that matter with these options.
func (o Options) followed() []kinds.Kind {
	list := kinds.All()
	if o.OpenShift {
		list = append(list, kinds.SecurityContextConstraints)
	}
	return list
}

// openShift says whether the pods are bound to SecurityContextConstraints: they
// are asked for, and the cluster has them now. The bundle asks for them everywhere,
// and OLM starts a new version before it applies a Subscription's settings, so
// on other clusters the flag alone would roll the pods at every upgrade.
func (a *App) openShift() bool {
	if !a.options.OpenShift {
		return false
	}
	_, there := a.kinds.Served(kinds.SecurityContextConstraints)
	return there
}
