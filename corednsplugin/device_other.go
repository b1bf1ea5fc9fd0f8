//go:build !linux

package oooi

import (
	"errors"
	"net/netip"
)

var errNotLinux = errors.New("binding sockets to devices needs Linux")

func bindListeners() error { return errNotLinux }

func devicesByAddress() (map[netip.Addr]string, error) { return nil, errNotLinux }

func bindControl(string) func(uintptr) error {
	return func(uintptr) error { return errNotLinux }
}
