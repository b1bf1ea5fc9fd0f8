package v1alpha1

// Conditions of every kind. Ready sums up the others of its object.
const (
	// ConditionReady: provisioned as declared. An Infra provisions its children, and
	// is Ready once they are as planned; a child provisions its workload, and is
	// Ready once that is made and its network is there. What works is Available,
	// of both: the one to watch for service.
	ConditionReady = "Ready"
	// ConditionAvailable: the Deployments are up and every agent has the wanted
	// snapshot in force.
	ConditionAvailable = "Available"
	// ConditionProgressing: a change is under way.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is the one negative summary: something works less well
	// than declared.
	ConditionDegraded = "Degraded"
)

// Conditions of an Infra beside the summaries.
const (
	// ConditionDHCPProvisioned, ConditionDNSProvisioned and
	// ConditionProxyProvisioned: the component's resource is made.
	ConditionDHCPProvisioned  = "DHCPProvisioned"
	ConditionDNSProvisioned   = "DNSProvisioned"
	ConditionProxyProvisioned = "ProxyProvisioned"
	// ConditionRetained: a disabled component's resource is kept.
	ConditionRetained = "Retained"
	// ConditionDuplicateSourceIP: an address is claimed by two clusters and so
	// selects neither. Ready stays as it is.
	ConditionDuplicateSourceIP = "DuplicateSourceIP"
)

// Conditions of an InfraClusterAttachment beside the summaries.
const (
	// ConditionProgrammed is the Infra controller's: the attachment is part of
	// the shared stack.
	ConditionProgrammed = "Programmed"
	// ConditionAdmitted: the attachment may attach its HostedCluster.
	ConditionAdmitted = "Admitted"
	// ConditionControlPlaneAvailable: the control plane's Services are known.
	ConditionControlPlaneAvailable = "ControlPlaneAvailable"
	// ConditionEndpointMismatch: the HostedCluster publishes other endpoints
	// than the shared stack serves.
	ConditionEndpointMismatch = "EndpointMismatch"
	// ConditionClusterProxyBypassesVLAN: the HostedCluster's proxy settings
	// send API traffic elsewhere.
	ConditionClusterProxyBypassesVLAN = "ClusterProxyBypassesVLAN"
	// ConditionExternalServiceReady: the external Service is as declared.
	ConditionExternalServiceReady = "ExternalServiceReady"
	// ConditionAppsIngressReady: *.apps is as declared.
	ConditionAppsIngressReady = "AppsIngressReady"
	// ConditionControlPlaneConnectionAvailable and
	// ConditionDataPlaneConnectionAvailable mirror HyperShift's own.
	ConditionControlPlaneConnectionAvailable = "ControlPlaneConnectionAvailable"
	ConditionDataPlaneConnectionAvailable    = "DataPlaneConnectionAvailable"
)

// Conditions of the children beside the summaries.
const (
	// ConditionWorkloadReady: the Deployment and what it needs are made.
	ConditionWorkloadReady = "WorkloadReady"
	// ConditionNetworkReady: the pod has serverIP on its VLAN interface.
	ConditionNetworkReady = "NetworkReady"
	// ConditionConfigAccepted: the agent has the wanted snapshot in force.
	ConditionConfigAccepted = "ConfigAccepted"
)

// Reasons that several kinds use.
const (
	// ReasonReconciliationSucceeded: everything is as declared.
	ReasonReconciliationSucceeded = "ReconciliationSucceeded"
	// ReasonReconciliationFailed: a call failed and is tried again.
	ReasonReconciliationFailed = "ReconciliationFailed"
	// ReasonInvalidConfiguration: a field is missing or wrong; the message names it.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonDisabled: switched off in the spec.
	ReasonDisabled = "Disabled"
	// ReasonRetained: switched off, and its resource kept.
	ReasonRetained = "Retained"
	// ReasonAsExpected: nothing to report.
	ReasonAsExpected = "AsExpected"
	// ReasonRollingOut: pods are being replaced.
	ReasonRollingOut = "RollingOut"
	// ReasonWaitingForRollout: another component rolls out first.
	ReasonWaitingForRollout = "WaitingForRollout"
	// ReasonDeploymentUnavailable: no pod is ready; the message says why.
	ReasonDeploymentUnavailable = "DeploymentUnavailable"
	// ReasonWaitingForAgent: the agent has not reported the wanted snapshot.
	ReasonWaitingForAgent = "WaitingForAgent"
	// ReasonNameTaken: an object of that name exists and is not ours.
	ReasonNameTaken = "NameTaken"
	// ReasonMissingAPI: the cluster does not serve a kind that is needed.
	ReasonMissingAPI = "MissingAPI"
)

// Reasons of an Infra.
const (
	// ReasonDuplicateHostname: two attachments claim one domain.
	ReasonDuplicateHostname = "DuplicateHostname"
	// ReasonDuplicateHostedCluster: two attachments name one HostedCluster.
	ReasonDuplicateHostedCluster = "DuplicateHostedCluster"
	// ReasonDuplicateSourceIP: two clusters claim one worker address.
	ReasonDuplicateSourceIP = "DuplicateSourceIP"
	// ReasonDuplicateNetwork: another Infra holds the same network.
	ReasonDuplicateNetwork = "DuplicateNetwork"
	// ReasonOverlappingRange: an address range overlaps another.
	ReasonOverlappingRange = "OverlappingRange"
	// ReasonHubProxyLacksVLAN: the management cluster's proxy has no exception for the VLAN.
	ReasonHubProxyLacksVLAN = "HubProxyLacksVLAN"
	// ReasonNADHasIPAM: a NetworkAttachmentDefinition of the network gives addresses itself.
	ReasonNADHasIPAM = "NADHasIPAM"
	// ReasonTooFewAddresses: more workers have no lease than addresses are free.
	ReasonTooFewAddresses = "TooFewAddresses"
	// ReasonNetworkOverlap: the VLAN overlaps a pod or service network.
	ReasonNetworkOverlap = "NetworkOverlap"
	// ReasonTooManyAttachments: more than 250 attachments name the Infra.
	ReasonTooManyAttachments = "TooManyAttachments"
	// ReasonInternalProxyServiceUnresolved: internalProxyService names no
	// Service with a ClusterIP.
	ReasonInternalProxyServiceUnresolved = "InternalProxyServiceUnresolved"
	// ReasonNamespaceNotLabelled: the namespace lacks the label that the
	// NetworkPolicy asks for.
	ReasonNamespaceNotLabelled = "NamespaceNotLabelled"
	// ReasonNetworkChanged: running workers keep the old addresses until they
	// renew.
	ReasonNetworkChanged = "NetworkChanged"
	// ReasonExcluded: attachments are excluded; the message names them.
	ReasonExcluded = "Excluded"
)

// Reasons of an attachment.
const (
	// ReasonInfraNotFound: no Infra of that name in the namespace.
	ReasonInfraNotFound = "InfraNotFound"
	// ReasonHostedClusterNotFound: no HostedCluster of that name.
	ReasonHostedClusterNotFound = "HostedClusterNotFound"
	// ReasonHostedClusterRefNotPermitted: the HostedCluster lies in another
	// namespace and does not allow this one.
	ReasonHostedClusterRefNotPermitted = "HostedClusterRefNotPermitted"
	// ReasonControlPlaneNamespaceNotFound: the namespace does not exist (yet).
	ReasonControlPlaneNamespaceNotFound = "ControlPlaneNamespaceNotFound"
	// ReasonControlPlaneNamespaceMismatch: the namespace does not hold that
	// cluster's HostedControlPlane.
	ReasonControlPlaneNamespaceMismatch = "ControlPlaneNamespaceMismatch"
	// ReasonServicesNotFound: Services of the control plane are missing.
	ReasonServicesNotFound = "ServicesNotFound"
	// ReasonEndpointMismatch: published and served endpoints differ.
	ReasonEndpointMismatch = "EndpointMismatch"
	// ReasonBaseDomainPassthrough: it clashes with *.apps.
	ReasonBaseDomainPassthrough = "BaseDomainPassthrough"
	// ReasonClusterProxyBypassesVLAN: noProxy lacks an entry.
	ReasonClusterProxyBypassesVLAN = "ClusterProxyBypassesVLAN"
	// ReasonWaitingForInfra: the Infra has not taken the attachment up yet.
	ReasonWaitingForInfra = "WaitingForInfra"
	// ReasonNotReported: HyperShift does not report it.
	ReasonNotReported = "NotReported"
	// ReasonWorkersOffVLAN: machines have addresses, but none on the VLAN.
	ReasonWorkersOffVLAN = "WorkersOffVLAN"
	// ReasonStale: a fact cannot be read, and its last good value is in use.
	ReasonStale = "Stale"
)

// Reasons of the apps ingress.
const (
	ReasonWaitingForHostedClusterNodes = "WaitingForHostedClusterNodes"
	ReasonWaitingForMetalLBCRDs        = "WaitingForMetalLBCRDs"
	ReasonWaitingForExternalIP         = "WaitingForExternalIP"
	ReasonWaitingForMetalLBWebhook     = "WaitingForMetalLBWebhook"
	ReasonInstallPlanNeedsApproval     = "InstallPlanNeedsApproval"
	ReasonHostedClusterAccessFailed    = "HostedClusterAccessFailed"
	ReasonMetalLBInstallFailed         = "MetalLBInstallFailed"
	ReasonIngressServiceFailed         = "IngressServiceFailed"
	ReasonExternalIPDiscoveryFailed    = "ExternalIPDiscoveryFailed"
	ReasonCatalogSourceMissing         = "CatalogSourceMissing"
	ReasonResolutionFailed             = "ResolutionFailed"
	ReasonBundleUnpackFailed           = "BundleUnpackFailed"
	ReasonServiceNotOwned              = "ServiceNotOwned"
	ReasonExternalIPNotInPool          = "ExternalIPNotInPool"
	ReasonMirroredByHub                = "MirroredByHub"
	ReasonSpeakerNotRunning            = "SpeakerNotRunning"
)

// Reasons of the children.
const (
	// ReasonNetworkAttachmentNotFound: the NetworkAttachmentDefinition is missing.
	ReasonNetworkAttachmentNotFound = "NetworkAttachmentNotFound"
	// ReasonAddressNotAssigned: the pod's network-status lacks serverIP.
	ReasonAddressNotAssigned = "AddressNotAssigned"
	// ReasonConfigRejected: Envoy refused a configuration; the last good one
	// is in force.
	ReasonConfigRejected = "ConfigRejected"
	// ReasonContractMismatch: agent and operator speak different contracts.
	ReasonContractMismatch = "ContractMismatch"
	// ReasonForwardingEnabled: the pod forwards packets and no fence runs.
	ReasonForwardingEnabled = "ForwardingEnabled"
	// ReasonNoVLANRoute: an off-link source has no route on the VLAN device.
	ReasonNoVLANRoute = "NoVLANRoute"
	// ReasonMTUMismatch: the NetworkAttachmentDefinition names another MTU than the
	// pod's link on it has.
	ReasonMTUMismatch = "MTUMismatch"
	// ReasonAgentProblem: the agent reports a problem; the message is its own.
	ReasonAgentProblem = "AgentProblem"
)
