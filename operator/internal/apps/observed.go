package apps

import (
	"net/netip"
	"time"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// Class is the loadBalancerClass of our Service and of the MetalLB that we make,
// so that the management cluster's cloud provider does not answer the Service
// too.
const Class = "hostedcluster.densityops.com/vlan"

// Wanted is the attachment's declaration, with every default filled in.
type Wanted struct {
	// UID of the attachment; what it makes is labelled with it.
	UID  string
	Spec v1alpha1.AppsIngress
	// Refusal is set while the Infra refuses the declaration (an overlapping
	// range, say): nothing is written then.
	Refusal plan.Reason
	// Pool is the parsed range.
	Pool plan.Range
	// Last is the endpoint that is in force.
	Last Endpoint
	// Applied are the recorded identities.
	Applied []v1alpha1.AppliedObject
}

// Endpoint is where *.apps is reached: an address or, failing that, a name.
type Endpoint struct {
	IP       netip.Addr
	Hostname string
}

// Known says whether there is an endpoint.
func (e Endpoint) Known() bool { return e.IP.IsValid() || e.Hostname != "" }

// Observed is the hosted cluster as one pass saw it.
type Observed struct {
	// Now is when the pass was made.
	Now time.Time
	// AccessProblem says in words why the hosted cluster cannot be read; every
	// other field is meaningless then.
	AccessProblem string
	// WorkerReady: at least one worker is Ready and takes new pods.
	WorkerReady bool
	// CatalogSourceFound: the catalog source of the declaration exists.
	CatalogSourceFound bool
	// Subscriptions to the declared package, in every namespace.
	Subscriptions []Subscription
	// OthersWait: a Subscription to another package waits for the declared
	// catalog source.
	OthersWait bool
	// FailedUnpacks of the declared catalog source.
	FailedUnpacks []FailedUnpack
	// InstallPlans of the Subscriptions' namespaces that wait for approval.
	InstallPlans []InstallPlan
	// KindsServed: MetalLB, IPAddressPool and L2Advertisement are served.
	KindsServed bool
	// ARPIntervalServed: the schema of MetalLB has FieldARPInterval. It is looked at
	// only where the declaration has an interval.
	ARPIntervalServed bool
	// MetalLBs are the MetalLB objects of every namespace.
	MetalLBs []MetalLB
	// Speaker is nil where the namespace of the MetalLB that serves our pool has no
	// DaemonSet of that name.
	Speaker *Speaker
	// ForeignPools: an IPAddressPool that we did not make exists.
	ForeignPools bool
	// Service of the declared name.
	Service *Service
	// ServiceProblem says in words why it cannot be read.
	ServiceProblem string
	// HubMirrors are the Services that the management cluster's cloud provider
	// made from ours, "namespace/name".
	HubMirrors []string
}

// Subscription is an OLM Subscription.
type Subscription struct {
	Namespace, Name, UID string
	Ours                 bool
	InstalledCSV         string
	Created              time.Time
	Conditions           []Condition
}

// Condition is a condition of a Subscription that is True.
type Condition struct {
	Type, Reason, Message string
}

// InstallPlan is an OLM InstallPlan that waits for approval.
type InstallPlan struct {
	Namespace, Name string
	CSVs            []string
}

// MetalLB is a MetalLB object of metallb-operator.
type MetalLB struct {
	Namespace, Name string
	Ours            bool
	Class           string
}

// Speaker is the DaemonSet that announces addresses.
type Speaker struct {
	Namespace, Name string
	Desired, Ready  int32
}

// Service is the LoadBalancer Service.
type Service struct {
	UID string
	// Ours: it carries our label for this attachment.
	Ours  bool
	Class string
	// Ingress is status.loadBalancer.ingress.
	Ingress []Endpoint
	// Unusable are its entries that are no endpoint.
	Unusable []string
}
