// standin plays what surrounds oooi's pods in the tests: the endpoints of
// hosted control planes, an upstream resolver, and the worker VM's clients.
//
//	standin serve SPEC...          SPEC = tls:PORT:NAME | http:PORT:NAME | udp:PORT
//	standin upstream ADDR          a resolver that knows every name
//	standin registry ADDR DIR      an image registry that holds the OCI layouts of DIR
//	standin tls ADDR [SNI]         prints the common name of the server's certificate, or how it came to none:
//	                               refused, unreachable, unanswered, closed, mute
//	standin hold ADDR SNI          keeps a connection busy until its input ends; fails if it breaks
//	standin scan tcp|udp ADDR      prints the ports of ADDR that answer
//	standin sweep ADDR...          prints ADDR:PORT of every well-known TCP port that answers
//	standin send ADDR TEXT         sends one datagram
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("want serve, upstream, registry, tls, hold, scan, sweep or send, and what it needs")
	}
	switch args[0] {
	case "serve":
		return serve(ctx, args[1:])
	case "upstream":
		return upstream(args[1])
	case "registry":
		return serveRegistry(ctx, args[1], append(args[2:], "")[0])
	case "tls":
		return handshake(ctx, args[1], append(args[2:], "")[0])
	case "hold":
		return hold(ctx, args[1], append(args[2:], "")[0])
	case "scan":
		return scan(ctx, args[1], append(args[2:], "")[0])
	case "sweep":
		return sweep(ctx, args[1:])
	case "send":
		return send(ctx, args[1], append(args[2:], "")[0])
	default:
		return fmt.Errorf("standin does not know %q", args[0])
	}
}
