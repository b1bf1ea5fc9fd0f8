package report

// The wire form of what is applied: exactly the fields that we own.

type applied struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Status     status   `json:"status"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type status struct {
	Agent Agent `json:"agent"`
}

// Agent is the stanza.
type Agent struct {
	// ObservedVersion is the snapshot in force, ObservedGeneration the one of
	// the resource that it was made from.
	ObservedVersion    string `json:"observedVersion,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	ModuleVersion      string `json:"moduleVersion"`
	Contract           string `json:"contract"`
	// AcceptedVersion is what Envoy has acknowledged.
	AcceptedVersion string    `json:"acceptedVersion,omitempty"`
	Backends        int32     `json:"backends"`
	Problems        []Problem `json:"problems,omitempty"`
}

// Problem is something that a person should do something about.
type Problem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

const (
	apiVersion = "hostedcluster.densityops.com/v1alpha1"
	kind       = "ProxyServer"
	resource   = "proxyservers"
	fieldOwner = "oooi-xds-manager"
)

func wire(namespace, name string, a Agent) applied {
	return applied{APIVersion: apiVersion, Kind: kind, Metadata: metadata{Name: name, Namespace: namespace}, Status: status{Agent: a}}
}
