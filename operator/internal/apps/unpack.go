package apps

import (
	"slices"
	"time"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// unpackRetry is how long OLM is left alone with a bundle that it failed to
// unpack: from v0.43 on it tries again by itself after five minutes
// (operator-framework/operator-lifecycle-manager#3832), before that never.
const unpackRetry = 10 * time.Minute

// FailedUnpack is a Job of OLM that failed to unpack a bundle of the declared
// catalog source.
type FailedUnpack struct {
	Namespace, Name, UID string
	// ConfigMap is the owner, in the same namespace, which OLM fills from the Job.
	ConfigMap, ConfigMapUID string
	Created, Failed         time.Time
}

// leftovers are the failed Jobs that keep OLM from trying again, and their
// ConfigMaps. A Job does not say for whom it unpacks: those are ours that came
// after our Subscription, while no other Subscription waits for the same catalog
// source.
func leftovers(o Observed) []v1alpha1.AppliedObject {
	at := slices.IndexFunc(o.Subscriptions, func(s Subscription) bool { return s.Ours })
	if at < 0 || o.OthersWait {
		return nil
	}
	var out []v1alpha1.AppliedObject
	for _, u := range o.FailedUnpacks {
		if u.Created.Before(o.Subscriptions[at].Created) || o.Now.Sub(u.Failed) < unpackRetry {
			continue
		}
		out = append(out,
			v1alpha1.AppliedObject{APIVersion: "batch/v1", Kind: "Job", Namespace: u.Namespace, Name: u.Name, UID: u.UID},
			v1alpha1.AppliedObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: u.Namespace, Name: u.ConfigMap, UID: u.ConfigMapUID},
		)
	}
	return out
}
