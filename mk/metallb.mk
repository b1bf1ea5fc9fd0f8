# MetalLB, for the apps ingress of the real cluster.

$(TOOLS)/metallb-controller $(TOOLS)/metallb-speaker: $(TOOLS)/metallb-%: e2e/tools/metallb/go.mod
	@$(TIMED) "building MetalLB's $*" env GOWORK=off go -C e2e/tools/metallb build -ldflags "-s -w" -o $@ go.universe.tf/metallb/$*
