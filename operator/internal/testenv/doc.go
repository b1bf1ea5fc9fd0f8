// Package testenv runs a real etcd, kube-apiserver and kube-controller-manager
// for the tests of the controllers, and the operator on them with the rights of
// its own ServiceAccount.
//
// It refuses to run the operator as an administrator: what the manifests do not
// grant must fail in a test. Only tests import it.
package testenv
