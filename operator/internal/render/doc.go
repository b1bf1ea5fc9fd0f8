// Package render turns plans and children into Kubernetes objects.
//
// Every object holds only the fields that the operator owns, so that server-side
// apply leaves the others to whoever set them. It refuses to decide anything:
// what is rendered was decided by package plan, by the child's own spec or by
// the operator's options. Equal input gives equal bytes: a pod template that
// changes stops a service on a VLAN.
package render
