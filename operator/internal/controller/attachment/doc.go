// Package attachment reconciles an InfraClusterAttachment: it records what is
// true of the hosted cluster, lets the proxy into the control plane, and makes
// the external Service. It runs named steps in order (controlplane, external,
// apps); one that waits or fails does not stop the next.
//
// It refuses to write anything for a HostedCluster that the attachment may not
// attach (behaviour F0), and to touch the children. Invariant: a fact that
// cannot be read withdraws nothing; only an object that contradicts it, or the
// attachment's deletion, does.
package attachment
