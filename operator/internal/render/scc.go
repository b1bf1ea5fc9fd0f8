package render

import (
	securityv1 "github.com/openshift/api/security/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DHCPConstraints is the SecurityContextConstraints that --scc=minimal gives to
// DHCP pods: what restricted-v2 allows, NET_RAW for raw frames, and our own user
// (behaviours B2, C8). It names no users: the RoleBinding in a child's namespace
// lets that child's ServiceAccount use it.
func DHCPConstraints() *securityv1.SecurityContextConstraints {
	no := false
	return &securityv1.SecurityContextConstraints{
		TypeMeta: metav1.TypeMeta{APIVersion: securityv1.GroupVersion.String(), Kind: "SecurityContextConstraints"},
		ObjectMeta: metav1.ObjectMeta{Name: SCCName, Labels: map[string]string{
			LabelName: Name, LabelManagedBy: ManagedBy, LabelComponent: ComponentDHCP,
		}},
		AllowedCapabilities:      []corev1.Capability{"NET_RAW"},
		RequiredDropCapabilities: []corev1.Capability{"ALL"},
		AllowPrivilegeEscalation: &no, DefaultAllowPrivilegeEscalation: &no,
		ReadOnlyRootFilesystem: true,
		RunAsUser:              securityv1.RunAsUserStrategyOptions{Type: securityv1.RunAsUserStrategyMustRunAsNonRoot},
		SELinuxContext:         securityv1.SELinuxContextStrategyOptions{Type: securityv1.SELinuxStrategyMustRunAs},
		FSGroup:                securityv1.FSGroupStrategyOptions{Type: securityv1.FSGroupStrategyRunAsAny},
		SupplementalGroups:     securityv1.SupplementalGroupsStrategyOptions{Type: securityv1.SupplementalGroupsStrategyRunAsAny},
		SeccompProfiles:        []string{"runtime/default"},
		Volumes:                []securityv1.FSType{securityv1.FSTypeConfigMap, securityv1.FSTypeEmptyDir, securityv1.FSProjected},
	}
}
