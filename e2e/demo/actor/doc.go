// Package actor holds the parts of the demo's world that are not oooi: hosted
// control planes and ingress routers as TLS servers, an upstream resolver, and
// what a worker VM does to find out what it can reach.
//
// Each is a program of its own that runs inside one host of the lab, so every
// answer has travelled as packets. They know nothing of oooi and trust nothing
// but the certificates that they are given.
package actor
