# Packaging: images without a container engine, the OLM bundle and its catalog,
# kustomizations, releases.

IMAGES_OUT := $(BIN)/images
PACKAGING = $(GO_E2E) run ./packaging/cmd/packaging
PACKAGING_FLAGS = -root $(CURDIR)

# Tools of the operator framework. Each graph is its own module; opm and OLM need json1 and
# the pure Go openpgp to do without C libraries.
comma := ,
# $(call framework_tool,NAME,MODULE DIRECTORY,PACKAGE,TAGS)
define framework_tool
$(TOOLS)/$1: e2e/tools/$2/go.mod
	@$$(TIMED) "building $1" env GOWORK=off go -C e2e/tools/$2 build -tags $4 -ldflags "-s -w" -o $$@ $3
endef
$(eval $(call framework_tool,opm,opm,github.com/operator-framework/operator-registry/cmd/opm,json1$(comma)containers_image_openpgp))
$(eval $(call framework_tool,operator-sdk,operator-sdk,github.com/operator-framework/operator-sdk/cmd/operator-sdk,containers_image_openpgp))
$(eval $(call framework_tool,scorecard-test,operator-sdk,github.com/operator-framework/operator-sdk/images/scorecard-test,containers_image_openpgp))
$(eval $(call framework_tool,olm,olm,github.com/operator-framework/operator-lifecycle-manager/cmd/olm,json1$(comma)containers_image_openpgp))
$(eval $(call framework_tool,olm-catalog,olm,github.com/operator-framework/operator-lifecycle-manager/cmd/catalog,json1$(comma)containers_image_openpgp))
$(TOOLS)/grpc-health-probe: e2e/tools/grpc-health-probe/go.mod
	@$(TIMED) "building grpc-health-probe" env GOWORK=off go -C e2e/tools/grpc-health-probe build -ldflags "-s -w" -o $@ \
		github.com/grpc-ecosystem/grpc-health-probe
PACKAGING_TOOLS := $(addprefix $(TOOLS)/,opm operator-sdk scorecard-test olm olm-catalog grpc-health-probe)
test-e2e: $(PACKAGING_TOOLS)
# The guides look at certificates; their tests tell make what it would do.
E2E_PACKAGES += openssl=openssl make=make

##@ Package, and the tests of it alone

.PHONY: test-packaging
test-packaging: e2e-packages envoy build $(CONTROL_PLANE) $(PACKAGING_TOOLS) ## Test bundle, catalog, manifests, mirror, release and guides.
	@$(TIMED) "testing the packaging" env $(GO_E2E) test -timeout 30m ./packaging/... ./images/...

.PHONY: generate-bundle
generate-bundle: generate-api $(TOOLS)/opm
	@$(PACKAGING) bundle $(PACKAGING_FLAGS)
	@$(PACKAGING) catalog $(PACKAGING_FLAGS) -opm $(TOOLS)/opm
generate: generate-bundle

.PHONY: bundle
bundle: $(TOOLS)/operator-sdk ## Make and validate the OLM bundle and the images' kustomization from bundle/components.yaml.
	@$(PACKAGING) bundle $(PACKAGING_FLAGS)
	@for suite in suite=operatorframework name=operatorhubv2; do \
		$(TOOLS)/operator-sdk bundle validate bundle --select-optional $$suite; \
	done

.PHONY: catalog
catalog: $(TOOLS)/opm ## Render the bundle into the file-based catalog and validate it.
	@$(PACKAGING) catalog $(PACKAGING_FLAGS) -opm $(TOOLS)/opm

.PHONY: images
images: ## Build all images for amd64 and arm64 into bin/images: OCI layouts, archives, SBOMs. No engine is needed.
	@$(DEBIAN) python3=python3 pip3=python3-pip dpkg-deb=dpkg
	@$(TIMED) "building images" env $(PACKAGING) images $(PACKAGING_FLAGS) -out $(IMAGES_OUT)

.PHONY: pin
pin: ## Build the images, write their digests into the table, make bundle and catalog anew.
	@$(DEBIAN) python3=python3 pip3=python3-pip dpkg-deb=dpkg
	@$(TIMED) "building images" env $(PACKAGING) pin $(PACKAGING_FLAGS) -out $(IMAGES_OUT)
	@$(MAKE) bundle catalog

.PHONY: push-images
push-images: ## Push what "make images" built to a registry: make push-images TO=registry.example.com/oooi
	@$(PACKAGING) push $(PACKAGING_FLAGS) -from $(IMAGES_OUT) -to "$(TO)"

.PHONY: mirror
mirror: $(TOOLS)/opm ## Push all images to one registry, and write to bin/mirror what installs from it alone: make mirror TO=registry.example.com/oooi
	@$(PACKAGING) mirror $(PACKAGING_FLAGS) -out $(IMAGES_OUT) -opm $(TOOLS)/opm -to "$(TO)" -into $(BIN)/mirror

.PHONY: verify-bundle
verify-bundle: generate-bundle
	@git diff --exit-code --stat -- bundle catalog manifests/images && test -z "$$(git ls-files --others --exclude-standard -- bundle catalog manifests)" || \
		{ echo "bundle, catalog or manifests/images are not current: make bundle catalog" >&2; exit 1; }
verify: verify-bundle

.PHONY: release
release: $(CONTROL_PLANE) envoy ## Check and tag a module: make release MODULE=dhcpd VERSION=v0.2.0
	@e2e/tools/scripts/release "$(MODULE)" "$(VERSION)"
