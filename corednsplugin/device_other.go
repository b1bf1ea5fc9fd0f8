//go:build !linux

package oooi

import (
	"errors"
	"net/netip"
)

var errNotLinux = errors.New("binding sockets to devices needs Linux")

func bindListeners() (bound, error) { return nil, errNotLinux }

type devices struct{}

func (devices) holding(netip.Addr) (string, bool) { return "", false }

func (devices) indexes(netip.Addr) []int { return nil }

func listDevices() (devices, error) { return devices{}, errNotLinux }

func bindControl(string) func(uintptr) error {
	return func(uintptr) error { return errNotLinux }
}
