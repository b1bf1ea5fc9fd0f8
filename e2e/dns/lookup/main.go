// Command lookup asks the system's resolver for names and prints their
// addresses, one line a name. Built with and without cgo it is two clients.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

func main() {
	for _, name := range os.Args[1:] {
		addrs, err := net.DefaultResolver.LookupHost(context.Background(), name)
		slices.Sort(addrs)
		out := strings.Join(addrs, " ")
		var no *net.DNSError
		switch {
		case errors.As(err, &no) && no.IsNotFound:
			out = "not found"
		case err != nil:
			out = err.Error()
		}
		_, _ = fmt.Fprintln(os.Stdout, name, out)
	}
}
