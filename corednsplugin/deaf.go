package oooi

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// bound tells by address which device the listening sockets hear: its index, for
// that is what a socket is bound to. A device that is made anew under the same
// name has another one, and without a capability a bound socket cannot be bound
// again.
type bound map[netip.Addr]int

// away says which addresses no device holds: nothing can be heard there, and
// nothing is to be done but to wait.
func (b bound) away(held devices) error {
	return b.each(func(a netip.Addr) error {
		if len(held.indexes(a)) > 0 {
			return nil
		}
		return fmt.Errorf("listener %s: no device holds its address any more", a)
	})
}

// deaf says which addresses are there, but on other devices than their sockets
// hear: only a process that starts anew hears them again.
func (b bound) deaf(held devices) error {
	return b.each(func(a netip.Addr) error {
		if now := held.indexes(a); len(now) == 0 || slices.Contains(now, b[a]) {
			return nil
		}
		return fmt.Errorf("listener %s: its device was made anew, and an open socket cannot follow", a)
	})
}

// each joins what check says, in the order of the addresses.
func (b bound) each(check func(netip.Addr) error) error {
	var errs []error
	for _, a := range slices.SortedFunc(maps.Keys(b), netip.Addr.Compare) {
		errs = append(errs, check(a))
	}
	return errors.Join(errs...)
}
