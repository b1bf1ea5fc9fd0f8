# What the DHCP tests of e2e need: real clients and relays. None of them is
# started as a service of this machine.
E2E_PACKAGES += dhclient=isc-dhcp-client dhcpcd=dhcpcd-base dhcrelay=isc-dhcp-relay dbus-daemon=dbus \
	networkctl=systemd NetworkManager=network-manager
