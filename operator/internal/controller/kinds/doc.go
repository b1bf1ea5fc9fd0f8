// Package kinds follows the kinds that a management cluster may lack: those of
// HyperShift, KubeVirt, CAPI, Multus and OpenShift. A kind that appears is
// taken up without a restart, one that goes is let go (behaviour B9).
//
// It refuses to start an informer for a kind that is not served: that would
// keep the manager from starting. Invariant: a kind that is reported as served
// has an informer that has synced, where its objects are read at all.
package kinds
