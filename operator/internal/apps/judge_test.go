package apps

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

var (
	vip     = netip.MustParseAddr("192.0.2.200")
	hubIP   = netip.MustParseAddr("198.51.100.41")
	metalLB = MetalLB{Namespace: "openshift-operators", Name: "metallb", Ours: true, Class: Class}
	ours    = Subscription{Namespace: "openshift-operators", Name: "metallb-operator", Ours: true, InstalledCSV: "metallb-operator.v4.21.0"}
)

func wanted() Wanted {
	r, err := plan.ParseRange("192.0.2.200-192.0.2.209")
	if err != nil {
		panic(err)
	}
	return Wanted{
		UID: "uid-a", Pool: r,
		Spec: v1alpha1.AppsIngress{
			Enabled: true,
			MetalLB: v1alpha1.AppsMetalLB{
				AddressPoolName: "example-hcp-a-apps", IPAddressPoolRange: "192.0.2.200-192.0.2.209",
				Operator: v1alpha1.AppsMetalLBOperator{
					Source: "redhat-operators", SourceNamespace: "openshift-marketplace", Channel: "stable", Package: "metallb-operator",
				},
			},
			Service: v1alpha1.AppsService{Name: "oooi-ingress", Namespace: "openshift-ingress"},
			Ports:   v1alpha1.AppsPorts{HTTP: 80, HTTPS: 443},
		},
	}
}

func serving(s *Service) Observed {
	return Observed{WorkerReady: true, KindsServed: true, CatalogSourceFound: true, Subscriptions: []Subscription{ours}, MetalLBs: []MetalLB{metalLB}, Service: s}
}

// behaviour G1, G2: every phase and reason is reached from what the hosted
// cluster shows; hazards 116, 119, 120, 121, 122, 123, 126 and cases C48, C49.
func TestJudge(t *testing.T) {
	stuck := func(c Condition) Observed {
		s := ours
		s.Conditions = []Condition{c}
		return Observed{WorkerReady: true, CatalogSourceFound: true, Subscriptions: []Subscription{s}}
	}
	mirrored := serving(&Service{UID: "u", Ours: true, Class: Class, Ingress: []Endpoint{{IP: hubIP}}})
	mirrored.HubMirrors = []string{"clusters-example-hcp-a/a5d1b0c1e7f0a4e0e9a510c7b1e3f9a1"}
	unread := serving(nil)
	unread.ServiceProblem = "services \"oooi-ingress\" is forbidden"
	manual := Observed{
		WorkerReady: true, CatalogSourceFound: true, Subscriptions: []Subscription{ours},
		InstallPlans: []InstallPlan{{Namespace: "openshift-operators", Name: "install-x7k2d", CSVs: []string{"metallb-operator.v4.21.0-202608010000", "foreign-operator.v1.4.2"}}},
	}
	for _, tc := range []struct {
		name   string
		in     Observed
		phase  v1alpha1.AppsPhase
		reason string
		apply  []string
		end    Endpoint
	}{
		{name: "an unreachable cluster is Degraded and keeps its endpoint", in: Observed{AccessProblem: "dial tcp: refused"}, phase: "Degraded", reason: "HostedClusterAccessFailed", end: Endpoint{IP: vip}},
		{name: "without a worker nothing is installed", in: Observed{}, phase: "Pending", reason: "WaitingForHostedClusterNodes", end: Endpoint{IP: vip}},
		{name: "without the catalog source nothing is installed", in: Observed{WorkerReady: true}, phase: "Degraded", reason: "CatalogSourceMissing", end: Endpoint{IP: vip}},
		{name: "the Subscription comes first", in: Observed{WorkerReady: true, CatalogSourceFound: true}, phase: "Pending", reason: "WaitingForMetalLBCRDs", apply: []string{"Subscription"}, end: Endpoint{IP: vip}},
		{name: "a failed unpack shows OLM's words", in: stuck(Condition{Type: "BundleUnpackFailed", Message: "Bundle unpacking failed"}), phase: "Degraded", reason: "BundleUnpackFailed", end: Endpoint{IP: vip}},
		{name: "a failed resolution shows OLM's words", in: stuck(Condition{Type: "ResolutionFailed", Message: "constraints not satisfiable"}), phase: "Degraded", reason: "ResolutionFailed", end: Endpoint{IP: vip}},
		{name: "OLM misses the catalog source", in: stuck(Condition{Type: "CatalogSourcesUnhealthy", Message: "targeted catalogsource openshift-marketplace/redhat-operators missing"}), phase: "Degraded", reason: "CatalogSourceMissing", end: Endpoint{IP: vip}},
		{name: "a manual plan is never approved", in: manual, phase: "Pending", reason: "InstallPlanNeedsApproval", end: Endpoint{IP: vip}},
		{name: "a Service that cannot be read withdraws nothing", in: unread, phase: "Degraded", reason: "ExternalIPDiscoveryFailed", end: Endpoint{IP: vip}},
		{name: "an address that is none of IPv4 is no endpoint", in: serving(&Service{UID: "u", Ours: true, Class: Class, Unusable: []string{`"2001:db8::1"`}}), phase: "Degraded", reason: "ExternalIPDiscoveryFailed", apply: []string{"MetalLB", "IPAddressPool", "L2Advertisement", "Service"}},
		{name: "a Service without an address waits and withdraws the endpoint", in: serving(&Service{UID: "u", Ours: true, Class: Class}), phase: "Pending", reason: "WaitingForExternalIP", apply: []string{"MetalLB", "IPAddressPool", "L2Advertisement", "Service"}},
		{name: "an address of the pool is published", in: serving(&Service{UID: "u", Ours: true, Class: Class, Ingress: []Endpoint{{IP: vip}}}), phase: "Ready", reason: "ReconciliationSucceeded", apply: []string{"MetalLB", "IPAddressPool", "L2Advertisement", "Service"}, end: Endpoint{IP: vip}},
		{name: "a host name is published for Envoy", in: serving(&Service{UID: "u", Ours: true, Class: Class, Ingress: []Endpoint{{Hostname: "lb.example.com"}}}), phase: "Ready", reason: "ReconciliationSucceeded", apply: []string{"MetalLB", "IPAddressPool", "L2Advertisement", "Service"}, end: Endpoint{Hostname: "lb.example.com"}},
		{name: "an address outside the pool is never published", in: serving(&Service{UID: "u", Ours: true, Class: Class, Ingress: []Endpoint{{IP: hubIP}}}), phase: "Degraded", reason: "ExternalIPNotInPool", apply: []string{"MetalLB", "IPAddressPool", "L2Advertisement", "Service"}},
		{name: "the hub's mirror is reported and its address not published", in: mirrored, phase: "Degraded", reason: "MirroredByHub", apply: []string{"MetalLB", "IPAddressPool", "L2Advertisement", "Service"}, end: Endpoint{IP: vip}},
		{name: "a foreign Service is not touched", in: serving(&Service{UID: "u"}), phase: "Degraded", reason: "ServiceNotOwned", end: Endpoint{IP: vip}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := wanted()
			w.Last = Endpoint{IP: vip}
			d := Judge(w, tc.in)
			var kinds []string
			for _, o := range d.Apply {
				kinds = append(kinds, o.Kind())
			}
			require.Equal(t, tc.phase, d.Phase, d.Message)
			require.Equal(t, tc.reason, d.Reason)
			require.Empty(t, cmp.Diff(tc.apply, kinds), "objects applied")
			require.Equal(t, tc.end, d.Endpoint)
			require.NotEmpty(t, d.Message)
			require.Positive(t, d.After)
			if tc.reason == v1alpha1.ReasonHostedClusterAccessFailed {
				require.LessOrEqual(t, d.After, 15*time.Second, "with a call that hangs it is seen within 30 s that it is back")
			}
		})
	}
}

// case C49, hazard 120: OLM's failed Job is taken away once OLM has had its time
// with it, and only where it can be nobody else's.
func TestAFailedUnpackIsTakenAwayAfterOLMsOwnTime(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	removed := []v1alpha1.AppliedObject{
		{APIVersion: "batch/v1", Kind: "Job", Namespace: "openshift-marketplace", Name: "0f3a", UID: "job"},
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "openshift-marketplace", Name: "0f3a", UID: "map"},
	}
	for _, tc := range []struct {
		name   string
		change func(*Observed)
		want   []v1alpha1.AppliedObject
	}{
		{"after ten minutes", func(*Observed) {}, removed},
		{"not before", func(o *Observed) { o.FailedUnpacks[0].Failed = now.Add(-unpackRetry + time.Second) }, nil},
		{"not what is older than our Subscription", func(o *Observed) { o.FailedUnpacks[0].Created = now.Add(-2 * time.Hour) }, nil},
		{"not while another Subscription waits for the catalog", func(o *Observed) { o.OthersWait = true }, nil},
		{"not for a Subscription that somebody else made", func(o *Observed) { o.Subscriptions[0].Ours = false }, nil},
		{"not while OLM does not complain", func(o *Observed) { o.Subscriptions[0].Conditions = nil }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := ours
			s.Created = now.Add(-time.Hour)
			s.Conditions = []Condition{{Type: "BundleUnpackFailed", Message: "Job was active longer than specified deadline"}}
			o := Observed{Now: now, WorkerReady: true, CatalogSourceFound: true, Subscriptions: []Subscription{s}, FailedUnpacks: []FailedUnpack{{
				Namespace: "openshift-marketplace", Name: "0f3a", UID: "job", ConfigMap: "0f3a", ConfigMapUID: "map",
				Created: now.Add(-30 * time.Minute), Failed: now.Add(-20 * time.Minute),
			}}}
			tc.change(&o)
			require.Equal(t, tc.want, Judge(wanted(), o).Remove)
		})
	}
}

// hazard 127: an address that no speaker announces is shown as such, and stays
// published.
func TestAnAddressThatNobodyAnnouncesIsNoSuccess(t *testing.T) {
	o := serving(&Service{UID: "u", Ours: true, Class: Class, Ingress: []Endpoint{{IP: vip}}})
	o.Speaker = &Speaker{Namespace: "openshift-operators", Name: "speaker", Desired: 3}
	d := Judge(wanted(), o)
	require.Equal(t, v1alpha1.AppsPhaseDegraded, d.Phase)
	require.Equal(t, "SpeakerNotRunning", d.Reason)
	require.Contains(t, d.Message, "openshift-operators/speaker of the hosted cluster has 0 of 3 pods ready")
	require.Equal(t, vip, d.Endpoint.IP)
	o.Speaker.Ready = 1
	require.Equal(t, v1alpha1.AppsPhaseReady, Judge(wanted(), o).Phase)
}

// behaviour F5: a refused declaration writes nothing to the hosted cluster.
func TestRefusedDeclarationWritesNothing(t *testing.T) {
	w := wanted()
	w.Refusal = plan.Reason{Reason: "OverlappingRange", Message: "appsIngress.metallb.ipAddressPoolRange overlaps another"}
	d := Judge(w, serving(nil))
	require.Equal(t, v1alpha1.AppsPhaseDegraded, d.Phase)
	require.Equal(t, "OverlappingRange", d.Reason)
	require.Empty(t, d.Apply)
	require.Empty(t, d.Remove)
}

// behaviour G4, hazards 117, 118: a Service of ours without the class is made
// again, and asks for the address that it had.
func TestClasslessServiceOfOursIsMadeAgainWithItsAddress(t *testing.T) {
	w := wanted()
	w.Last = Endpoint{IP: vip}
	w.Applied = []v1alpha1.AppliedObject{{APIVersion: "v1", Kind: "Service", Namespace: "openshift-ingress", Name: "oooi-ingress", UID: "u"}}
	d := Judge(w, serving(&Service{UID: "u", Ingress: []Endpoint{{IP: vip}}}))
	require.Equal(t, w.Applied, d.Remove)
	svc := d.Apply[len(d.Apply)-1]
	require.Equal(t, Class, svc["spec"].(map[string]any)["loadBalancerClass"])
	require.Equal(t, vip.String(), svc["metadata"].(map[string]any)["annotations"].(map[string]any)[annotationIPs])
}

// behaviour G4, hazard 126: an existing MetalLB is used as it is.
func TestExistingMetalLBIsNotOverwritten(t *testing.T) {
	o := serving(nil)
	o.MetalLBs = []MetalLB{{Namespace: "metallb-system", Name: "metallb", Class: "vendor.example/lb"}}
	d := Judge(wanted(), o)
	for _, obj := range d.Apply {
		require.NotEqual(t, "MetalLB", obj.Kind())
		if obj.Kind() == "IPAddressPool" {
			require.Equal(t, "metallb-system", obj["metadata"].(map[string]any)["namespace"])
		}
	}
	svc := d.Apply[len(d.Apply)-1]
	require.Equal(t, "vendor.example/lb", svc["spec"].(map[string]any)["loadBalancerClass"])
}

// hazard 132: somebody else's MetalLB is not told how often to announce, and that
// is said.
func TestTheIntervalOfAForeignMetalLBIsItsOwners(t *testing.T) {
	w, o := wanted(), serving(&Service{UID: "u", Ours: true, Class: "vendor.example/lb", Ingress: []Endpoint{{IP: vip}}})
	w.Spec.MetalLB.GratuitousARPInterval = "1m"
	o.ARPIntervalServed = true
	o.MetalLBs = []MetalLB{{Namespace: "metallb-system", Name: "metallb", Class: "vendor.example/lb"}}
	d := Judge(w, o)
	require.Equal(t, v1alpha1.AppsPhaseReady, d.Phase)
	require.Equal(t, "*.apps is served; appsIngress.metallb.gratuitousARPInterval has no effect: MetalLB metallb-system/metallb is somebody else's", d.Message)
	for _, obj := range d.Apply {
		require.NotEqual(t, "MetalLB", obj.Kind())
	}
}

// hazard 122: somebody else's Subscription to MetalLB is waited for, wherever it
// lies; a second would make two MetalLBs that fight over one network.
func TestAnotherSubscriptionIsWaitedFor(t *testing.T) {
	o := Observed{WorkerReady: true, Subscriptions: []Subscription{{Namespace: "metallb-system", Name: "theirs"}}}
	d := Judge(wanted(), o)
	require.Equal(t, "WaitingForMetalLBCRDs", d.Reason)
	require.Empty(t, d.Apply)
	o.KindsServed = true
	for _, obj := range Judge(wanted(), o).Apply {
		if obj.Kind() != "Service" {
			require.Equal(t, "metallb-system", obj["metadata"].(map[string]any)["namespace"], obj.Kind())
		}
	}
}

// hazards 133, 252: the node that announces the address need not run a router, and
// pods of the hosted cluster reach it too.
func TestTheServiceLeadsToEveryRouter(t *testing.T) {
	require.Equal(t, "Cluster", wanted().service(Class)["spec"].(map[string]any)["externalTrafficPolicy"])
}

// hazard 135: a cluster that loses its last worker is Pending again; its
// endpoint stays, and nothing is removed.
func TestAClusterThatLosesItsWorkersKeepsItsEndpoint(t *testing.T) {
	w, o := wanted(), serving(&Service{UID: "u", Ours: true, Class: Class, Ingress: []Endpoint{{IP: vip}}})
	w.Last, o.WorkerReady = Endpoint{IP: vip}, false
	d := Judge(w, o)
	require.Equal(t, v1alpha1.AppsPhasePending, d.Phase)
	require.Equal(t, vip, d.Endpoint.IP)
	require.Empty(t, d.Remove)
}

// behaviour G3, hazard 128: user metadata is merged, the pool annotation is ours.
func TestServiceMetadataIsMergedAndThePoolIsOurs(t *testing.T) {
	w := wanted()
	w.Spec.Service.Annotations = map[string]string{"external-dns.alpha.kubernetes.io/hostname": "*.apps.x.", annotationPool: "evil"}
	w.Spec.Service.Labels = map[string]string{"publish": "yes", LabelAttachmentUID: "evil"}
	m := w.service(Class)["metadata"].(map[string]any)
	require.Empty(t, cmp.Diff(map[string]any{
		"external-dns.alpha.kubernetes.io/hostname": "*.apps.x.",
		annotationPool: "example-hcp-a-apps", annotationPoolOld: "example-hcp-a-apps",
	}, m["annotations"]))
	require.Empty(t, cmp.Diff(map[string]any{"publish": "yes", LabelManagedBy: ManagedBy, LabelAttachmentUID: "uid-a"}, m["labels"]))
}

// behaviour G5: a renamed Service or pool leaves nothing behind.
func TestRenamedObjectsAreRemoved(t *testing.T) {
	w := wanted()
	w.Applied = []v1alpha1.AppliedObject{
		{Kind: "IPAddressPool", Namespace: "openshift-operators", Name: "old", UID: "1"},
		{Kind: "L2Advertisement", Namespace: "openshift-operators", Name: "advertise-old", UID: "2"},
		{Kind: "Service", Namespace: "openshift-ingress", Name: "old", UID: "3"},
		{Kind: "MetalLB", Namespace: "openshift-operators", Name: "metallb", UID: "4"},
	}
	d := Judge(w, serving(nil))
	require.Empty(t, cmp.Diff([]v1alpha1.AppliedObject{w.Applied[2], w.Applied[1], w.Applied[0]}, d.Remove))
}

// behaviour G5, hazard 136: what others use stays when we go.
func TestRemoveLeavesWhatOthersUse(t *testing.T) {
	w := wanted()
	csv := Installed(Observed{Subscriptions: []Subscription{ours}})
	w.Applied = append(csv, []v1alpha1.AppliedObject{
		{Kind: "Subscription", Name: "s"}, {Kind: "MetalLB", Name: "m"}, {Kind: "IPAddressPool", Name: "p"}, {Kind: "Service", Name: "v"},
	}...)
	kinds := func(o Observed) (out []string) {
		for _, a := range Remove(w, o) {
			out = append(out, a.Kind)
		}
		return out
	}
	theirs := ours
	theirs.Ours = false
	all := []string{"Service", "IPAddressPool", "MetalLB", "Subscription", "ClusterServiceVersion"}
	require.Equal(t, []string{"Service", "IPAddressPool"}, kinds(Observed{ForeignPools: true, Subscriptions: []Subscription{ours}}))
	require.Equal(t, all, kinds(Observed{Subscriptions: []Subscription{ours}}))
	require.Equal(t, all, kinds(Observed{}), "also where the Subscription went before")
	require.Equal(t, all[:4], kinds(Observed{Subscriptions: []Subscription{theirs}}), "another Subscription has it by now")
	require.Empty(t, Installed(Observed{Subscriptions: []Subscription{theirs}}))
}

// case C50, hazards 124, 125, 130.
func TestRefused(t *testing.T) {
	gr := schema.GroupResource{Group: "metallb.io", Resource: "ipaddresspools"}
	denied := apierrors.NewForbidden(gr, "p", errors.New("overlaps with pool q"))
	for _, tc := range []struct {
		name, kind, reason string
		err                error
		phase              v1alpha1.AppsPhase
	}{
		{name: "a webhook that is not up is waited for", kind: "IPAddressPool", err: apierrors.NewInternalError(errors.New(`failed calling webhook "x": connect: connection refused`)), phase: "Pending", reason: "WaitingForMetalLBWebhook"},
		{name: "a kind that is not mapped yet is waited for", kind: "IPAddressPool", err: &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "metallb.io", Kind: "IPAddressPool"}}, phase: "Pending", reason: "WaitingForMetalLBWebhook"},
		{name: "a denial is shown", kind: "IPAddressPool", err: denied, phase: "Degraded", reason: "MetalLBInstallFailed"},
		{name: "a denied Service is shown as such", kind: "Service", err: denied, phase: "Degraded", reason: "IngressServiceFailed"},
		{name: "a lost connection is an access problem", kind: "Service", err: errors.New("connection reset"), phase: "Degraded", reason: "HostedClusterAccessFailed"},
		{name: "a rejected credential is an access problem", kind: "Service", err: apierrors.NewUnauthorized("expired"), phase: "Degraded", reason: "HostedClusterAccessFailed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decision{}.Refused(tc.kind, tc.err, Endpoint{IP: vip})
			require.Equal(t, tc.phase, d.Phase)
			require.Equal(t, tc.reason, d.Reason)
			require.Equal(t, vip, d.Endpoint.IP)
		})
	}
	require.Contains(t, Decision{}.Refused("IPAddressPool", denied, Endpoint{}).Message, "overlaps with pool q")
}
