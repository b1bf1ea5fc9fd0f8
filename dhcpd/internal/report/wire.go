package report

// The API that the status belongs to.
const (
	Group      = "hostedcluster.densityops.com"
	APIVersion = Group + "/v1alpha1"
	Kind       = "DHCPServer"
	Resource   = "dhcpservers"
	FieldOwner = "oooi-dhcpd"
)

// Object is the resource with nothing but what is ours.
type Object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Status     Status   `json:"status"`
}

// Metadata names the resource. With a resource version, the write fails if
// the resource has changed since.
type Metadata struct {
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Status is the part of the status that is ours.
type Status struct {
	Agent Agent `json:"agent"`
}

// Agent is status.agent.
type Agent struct {
	ObservedVersion    string    `json:"observedVersion,omitempty"`
	ObservedGeneration int64     `json:"observedGeneration,omitempty"`
	ModuleVersion      string    `json:"moduleVersion,omitempty"`
	Contract           string    `json:"contract,omitempty"`
	Problems           []Problem `json:"problems,omitempty"`
	Holder             string    `json:"holder,omitempty"`
	Pool               *Pool     `json:"pool,omitempty"`
	Bindings           []Binding `json:"bindings,omitempty"`
	Blocks             []Block   `json:"blocks,omitempty"`
}

// Problem is something that a person has to put right.
type Problem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Pool is the figures of the address pool.
type Pool struct {
	Total     int `json:"total"`
	Active    int `json:"active"`
	Free      int `json:"free"`
	Declined  int `json:"declined"`
	Conflicts int `json:"conflicts"`
	// ActiveOfTotal is "2/100", for the columns that people see.
	ActiveOfTotal string `json:"activeOfTotal,omitempty"`
}

// Binding says who has an address.
type Binding struct {
	MACAddress  string `json:"macAddress"`
	IP          string `json:"ip"`
	VMNamespace string `json:"vmNamespace,omitempty"`
	VMName      string `json:"vmName,omitempty"`
}

// Block is a range of addresses that may have been given.
type Block struct {
	Start string `json:"start"`
	End   string `json:"end"`
}
