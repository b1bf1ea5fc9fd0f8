// Package apps decides what one hosted cluster's *.apps needs next: MetalLB from
// OLM, a pool, an advertisement, a LoadBalancer Service, an endpoint.
//
// Judge is the whole state machine and pure: the hosted cluster as one pass saw
// it goes in, a phase and the objects to write or remove come out. It refuses to
// touch what it did not make (a Service without our label and without a recorded
// identity, a MetalLB that was there before), to approve an InstallPlan, to make
// a second Subscription, and to publish an address outside the attachment's own
// range.
//
// Invariant: what cannot be read withdraws nothing; only a Service that was read
// and has lost its address does.
package apps
