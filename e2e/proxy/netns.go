package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/e2e/lab"
)

// Within runs f with the calling thread in the host's network. Sockets that f
// makes stay there; goroutines that it starts do not.
func Within(h *lab.Host, f func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening own network: %w", err)
	}
	defer func() { _ = own.Close() }()
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", h.PID()))
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening network of %s: %w", h.Name, err)
	}
	defer func() { _ = there.Close() }()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering network of %s: %w", h.Name, err)
	}
	ferr := f()
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		// The thread is lost: it ends with its goroutine, still locked.
		return fmt.Errorf("leaving network of %s: %w", h.Name, err)
	}
	runtime.UnlockOSThread()
	return ferr
}

// Listen listens on an address of the host.
func Listen(h *lab.Host, addr netip.AddrPort) (net.Listener, error) {
	var l net.Listener
	err := Within(h, func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp4", addr.String())
		return err
	})
	return l, err
}

// Dial connects from an address of the host; an invalid one lets the kernel choose.
func Dial(ctx context.Context, h *lab.Host, from netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: patience}
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		// Many connections from one address: the kernel may reuse its ports.
		d.Control = func(_, _ string, c syscall.RawConn) error {
			var serr error
			err := c.Control(func(fd uintptr) {
				serr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			})
			if err != nil {
				return err
			}
			return serr
		}
	}
	var c net.Conn
	err := Within(h, func() (err error) {
		c, err = d.DialContext(ctx, "tcp4", to.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}
