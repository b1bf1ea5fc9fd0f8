package lab

import "testing"

// ForTest is a lab that ends with the test. A machine that cannot hold one
// fails the test: what was not run is not shown to work.
func ForTest(tb testing.TB) *Lab {
	tb.Helper()
	l, err := New()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.Close)
	return l
}

// MustHost is Host for tests.
func (l *Lab) MustHost(tb testing.TB, name string) *Host {
	tb.Helper()
	h, err := l.Host(name)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}
