package render

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// VLANInterface is the pods' interface on the VLAN.
const VLANInterface = "vlan0"

// PolicyName of the NetworkPolicy in each control-plane namespace.
const PolicyName = "allow-infrastructure"

// VMIReader is the ClusterRole that lets dhcpd read virtual machines; the
// operator may bind it and nothing else.
const VMIReader = "oooi-vmi-reader"

// SCCName of the SecurityContextConstraints that --scc=minimal makes for DHCP,
// and of the ClusterRole that lets a pod use it.
const SCCName = "oooi-dhcpd"

// ChildName of an Infra's child.
func ChildName(infra, component string) string { return infra + "-" + component }

// WorkloadName of a child's objects. A DHCPServer and a DNSServer that a user
// gave one name do not share a Deployment.
func WorkloadName(child, component string) string {
	if strings.HasSuffix(child, "-"+component) {
		return child
	}
	return child + "-" + component
}

// ExternalServiceName of an attachment.
func ExternalServiceName(attachment string) string { return attachment + "-proxy-external" }

// foreignName is the name of a child's object outside its namespace: the
// namespace is part of it, as a hash where both would be too long. A namespace has
// no dot, so no two children have one such name.
func foreignName(namespace, name string) string {
	full := "oooi-" + namespace + "." + name
	if len(full) <= 63 {
		return full
	}
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return "oooi-" + hex.EncodeToString(sum[:16])
}
