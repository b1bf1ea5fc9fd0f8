package report

import (
	"fmt"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// What the apply names.
const (
	APIVersion = "hostedcluster.densityops.com/v1alpha1"
	Kind       = "DNSServer"
	FieldOwner = "oooi-coredns"
)

// Object is the apply document.
type Object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Status     Status   `json:"status"`
}

// Metadata names the resource; the uid keeps a report of an earlier resource of
// the same name away from its successor.
type Metadata struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Status holds our stanza alone.
type Status struct {
	Agent Agent `json:"agent"`
}

// Agent is the stanza.
type Agent struct {
	ObservedVersion    string    `json:"observedVersion,omitempty"`
	ObservedGeneration int64     `json:"observedGeneration,omitempty"`
	ModuleVersion      string    `json:"moduleVersion"`
	Contract           string    `json:"contract"`
	Names              int       `json:"names"`
	Problems           []Problem `json:"problems,omitempty"`
}

// Problem is something that the user can mend.
type Problem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// The resource's schema takes no more; one that is too long would keep all of the
// report out.
const (
	maxProblems = 256
	maxMessage  = 2048 // characters
)

// ReasonMoreProblems stands for the problems that the status has no room for.
const ReasonMoreProblems = "MoreProblems"

// Problems sorts, bounds and converts.
func Problems(in []snapshot.Problem) []Problem {
	var out []Problem
	sorted := snapshot.SortProblems(in)
	for i, p := range sorted {
		if len(out) == maxProblems-1 && len(sorted) > maxProblems {
			return append(out, Problem{ReasonMoreProblems, fmt.Sprintf("%d problems more are not listed", len(sorted)-i)})
		}
		if message := []rune(p.Message); len(message) > maxMessage {
			p.Message = string(message[:maxMessage-3]) + "..."
		}
		out = append(out, Problem(p))
	}
	return out
}
