// Package version says which release this is. It imports nothing, so that the
// fence stays small.
package version

const (
	// Module is the module's version.
	Module = "v0.1.0"
	// Contract is the version of the agent contract that is spoken.
	Contract = "agent.v1"
)
