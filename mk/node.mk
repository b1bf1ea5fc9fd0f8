# A real Kubernetes of one or two nodes in namespaces, and the tests that run on it.
# The programs of Kubernetes and Multus are built by the Makefile's own rules.

NODE_TOOLS := $(CONTROL_PLANE) $(addprefix $(TOOLS)/,kube-scheduler kubelet kube-proxy multus pause)
CLUSTER_TOOLS := $(addprefix $(TOOLS)/,clusterdns kube-router opm olm olm-catalog operator-sdk scorecard-test)
NODE_PACKAGES := $(LAB_PACKAGES) containerd=containerd ctr=containerd runc=runc /usr/lib/cni/ptp=containernetworking-plugins \
	nft=nftables iptables=iptables ipset=ipset conntrack=conntrack pgrep=procps tcpdump=tcpdump curl=curl hostname=hostname
E2E_DIR ?= /tmp/oooi-e2e

$(TOOLS)/pause: e2e/node/cmd/pause/main.go
	@$(GO_E2E) build -ldflags "-s -w" -o $@ ./node/cmd/pause

$(TOOLS)/clusterdns: e2e/tools/clusterdns/go.mod e2e/tools/clusterdns/main.go
	@$(TIMED) "building clusterdns" env GOWORK=off go -C e2e/tools/clusterdns build -ldflags "-s -w" -o $@ .

$(TOOLS)/kube-router: e2e/tools/kube-router/go.mod
	@$(TIMED) "building kube-router" env GOWORK=off go -C e2e/tools/kube-router build -ldflags "-s -w" -o $@ \
		github.com/cloudnativelabs/kube-router/v2/cmd/kube-router

.PHONY: node-packages
node-packages:
	@$(DEBIAN) $(NODE_PACKAGES)

# The recipe is the Makefile's.
e2e-pods: node-packages $(NODE_TOOLS) $(CLUSTER_TOOLS)

.PHONY: e2e-up
e2e-up: node-packages $(NODE_TOOLS) ## Bring a real Kubernetes up (NODES=2) and leave it; e2e-sh enters, e2e-down removes it.
	@$(GO_E2E) build -o $(BIN)/node ./node/cmd/node
	@OOOI_E2E_DIR=$(E2E_DIR) $(BIN)/node up $(or $(NODES),1)

.PHONY: e2e-sh
e2e-sh: ## A shell inside the first node of e2e-up (CMD="kubectl get pods -A" runs one command).
	@OOOI_E2E_DIR=$(E2E_DIR) $(BIN)/node sh $(CMD)

.PHONY: e2e-down
e2e-down: ## Remove what e2e-up made, and what a test left that was killed.
	@$(GO_E2E) build -o $(BIN)/node ./node/cmd/node
	@for state in $(E2E_DIR)/state.json /tmp/oooi-e2e-*/state.json; do \
		test ! -e $$state || OOOI_E2E_DIR=$$(dirname $$state) $(BIN)/node down; \
	done
