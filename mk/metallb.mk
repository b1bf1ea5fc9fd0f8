# MetalLB, for the tests of the apps ingress.

$(TOOLS)/metallb-controller $(TOOLS)/metallb-speaker: $(TOOLS)/metallb-%: e2e/tools/metallb/go.mod
	@$(TIMED) "building MetalLB's $*" env GOWORK=off go -C e2e/tools/metallb build -ldflags "-s -w" -o $@ go.universe.tf/metallb/$*

# The recipe is the Makefile's.
e2e-pods: $(TOOLS)/metallb-controller $(TOOLS)/metallb-speaker
