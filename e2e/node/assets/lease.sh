#!/bin/bash
# udhcpc's script: takes the lease as a VM would, and keeps what was said.
# Needs: LEASE_FILE
case $1 in
deconfig) ip addr flush dev "$interface"; ip link set "$interface" up ;;
bound | renew)
  ip addr replace "$ip/$mask" dev "$interface"
  for r in $router; do ip route replace default via "$r" dev "$interface"; break; done
  [ -n "$dns" ] && : >/etc/resolv.conf
  for d in $dns; do echo "nameserver $d" >>/etc/resolv.conf; done
  [ -n "$hostname" ] && hostname "$hostname"
  for v in ip mask router dns hostname lease serverid mtu; do echo "$v=${!v}"; done >"$LEASE_FILE"
  echo "$1 $ip" >>"$LEASE_FILE.history"
  ;;
esac
exit 0
