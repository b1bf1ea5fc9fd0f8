package lab

import "testing"

// ForTest is a lab that ends with the test. A machine that cannot hold one
// fails the test: what was not run is not shown to work.
func ForTest(t testing.TB) *Lab {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// MustHost is Host for tests.
func (l *Lab) MustHost(t testing.TB, name string) *Host {
	t.Helper()
	h, err := l.Host(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
