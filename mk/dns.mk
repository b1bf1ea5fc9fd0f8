# Resolvers for the tests of the DNS server. Debian's systemd-resolved package
# rewrites /etc/resolv.conf where it is installed, so it is only unpacked.

E2E_PACKAGES += curl=curl kdig=knot-dnsutils dnsperf=dnsperf unbound=unbound kresd=knot-resolver musl-gcc=musl-tools gcc=gcc

$(TOOLS)/resolved/lib/systemd/systemd-resolved:
	@mkdir -p $(TOOLS)/resolved
	@$(TIMED) "unpacking systemd-resolved" e2e/dns/unpack $(TOOLS)/resolved systemd-resolved libsystemd-shared

test-e2e: $(TOOLS)/resolved/lib/systemd/systemd-resolved
