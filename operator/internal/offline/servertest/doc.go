// Package servertest holds the test that a real API server accepts everything
// that is planned and rendered. It refuses to hold code.
package servertest
