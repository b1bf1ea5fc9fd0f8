# What the DHCP tests of e2e need: real clients and relays. None of them is
# started as a service of this machine.
E2E_PACKAGES += dhclient=isc-dhcp-client dhcpcd=dhcpcd-base dhcrelay=isc-dhcp-relay dbus-daemon=dbus \
	networkctl=systemd NetworkManager=network-manager

FUZZTIME ?= 10m

.PHONY: fuzz-dhcp
fuzz-dhcp: ## Fuzz what dhcpd reads, and its lease table, each for FUZZTIME (10m).
	@set -e; for t in dhcp:FuzzHandle lease:FuzzNoAddressIsGivenTwice journal:FuzzScan config:FuzzSnapshot server:FuzzUnwrap vmi:FuzzMachines; do \
		GOWORK=off go -C dhcpd test ./internal/$${t%%:*} -run '^$$' -fuzz "^$${t##*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x; \
	done
