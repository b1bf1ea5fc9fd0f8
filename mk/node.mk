# A real Kubernetes in namespaces, and the whole product on it. The programs of
# Kubernetes and Multus, of OLM and its friends are built by rules elsewhere.

##@ Prove it on a real cluster

NODE_TOOLS := $(CONTROL_PLANE) $(addprefix $(TOOLS)/,kube-scheduler kubelet kube-proxy kube-router multus pause)
CLUSTER_TOOLS := $(addprefix $(TOOLS)/,clusterdns opm olm olm-catalog operator-sdk scorecard-test metallb-controller metallb-speaker)
NODE_PACKAGES := $(LAB_PACKAGES) containerd=containerd ctr=containerd runc=runc /usr/lib/cni/ptp=containernetworking-plugins \
	iptables=iptables ipset=ipset conntrack=conntrack pgrep=procps tcpdump=tcpdump curl=curl python3=python3 pip3=python3-pip dpkg-deb=dpkg
E2E_DIR ?= /tmp/oooi-e2e
# $(call e2e,FLAGS): from its own directory, so that its progress shows while it runs.
e2e = env GOWORK=off go -C e2e/pods test -count=1 -parallel 16 $1

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

.PHONY: e2e-needs
e2e-needs: node-packages build envoy $(NODE_TOOLS) $(CLUSTER_TOOLS)

.PHONY: e2e
e2e: e2e-needs ## The whole product on a real cluster of two nodes, from the Subscription to the uninstallation (RUN=TEST: a part).
	@$(TIMED) "testing on a real cluster" $(call e2e,-timeout 30m $(if $(RUN),-run '$(RUN)'))

.PHONY: e2e-up
e2e-up: e2e-needs ## Bring the cluster of "make e2e" up, with all that it serves, and leave it to you.
	@KEEP=$(E2E_DIR) $(TIMED) "bringing a real cluster up" $(call e2e,-timeout 15m -run '^TestCluster$$/^comes_up')
	@echo 'make e2e-sh enters a node, make e2e-sh BOX=vma a VM (also vmb, intruder, world), make e2e-down removes all of it'

.PHONY: node-up
node-up: node-packages $(NODE_TOOLS) ## Bring up a real Kubernetes alone (NODES=1), for e2e-sh and e2e-down.
	@$(GO_E2E) build -o $(BIN)/node ./node/cmd/node
	@OOOI_E2E_DIR=$(E2E_DIR) $(BIN)/node up $(or $(NODES),1)

.PHONY: e2e-sh
e2e-sh: ## A shell inside what e2e-up left (BOX=node1; CMD="kubectl get pods -A" runs one command).
	@$(GO_E2E) build -o $(BIN)/node ./node/cmd/node
	@OOOI_E2E_DIR=$(E2E_DIR) OOOI_E2E_BOX=$(BOX) $(BIN)/node sh $(CMD)

.PHONY: e2e-down
e2e-down: ## Remove what e2e-up left, and what a run that was killed left.
	@$(GO_E2E) build -o $(BIN)/node ./node/cmd/node
	@test ! -e $(E2E_DIR)/state.json || OOOI_E2E_DIR=$(E2E_DIR) $(BIN)/node down
	@for state in /tmp/oooi-e2e-*/state.json; do \
		test ! -e $$state || OOOI_E2E_DIR=$$(dirname $$state) $(BIN)/node down-orphan; \
	done

.PHONY: e2e-faults
e2e-faults: e2e-needs ## Put a fault into each component of a copy, and see "make e2e" fail there (FAULTS=netmask: one).
	@e2e/faults/run $(FAULTS)
