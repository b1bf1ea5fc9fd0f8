# Packaging: images without a container engine, the OLM bundle and its catalog,
# kustomizations, releases.

REGISTRY ?= quay.io/densityops
IMAGES_OUT := $(BIN)/images

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
PACKAGING_TOOLS := $(addprefix $(TOOLS)/,opm operator-sdk scorecard-test)
