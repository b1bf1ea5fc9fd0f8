// Package hosted makes clients for hosted clusters out of the kubeconfig Secret
// of their control plane (behaviour G7).
//
// It trusts nothing but inline credentials: a kubeconfig is written by another
// operator in a namespace that others may write to, and this process would run
// its plugins, read its files and follow its proxies. The server's address is
// always the control plane's own Service. Answers are bounded in time and size,
// and a redirect is not followed; few long ones are in memory at one time, each until
// the Work that it belongs to ends. What else holds a request back, as the leader's gate does, holds back
// these too (Through). Invariant: no credential is sent anywhere but
// to that Service.
package hosted
