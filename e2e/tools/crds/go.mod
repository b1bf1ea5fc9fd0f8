// The modules whose CustomResourceDefinitions the real cluster serves. Nothing
// of them is compiled.
module github.com/densityops/oooi/e2e/tools/crds

go 1.26.0

require (
	github.com/openshift/hypershift/api v0.0.0-20260524140149-6d994e441608
	sigs.k8s.io/cluster-api v1.14.2
)
