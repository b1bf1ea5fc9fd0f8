package pods

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// step runs a part of a test and ends the test if it fails: what comes later
// builds on it, and what is kept should show how things were then.
func (l *lab) step(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	if !t.Run(name, func(t *testing.T) { l.timed(t, name); run(t) }) {
		t.FailNow()
	}
}

// together runs parts that do not disturb one another at the same time.
func (l *lab) together(t *testing.T, name string, parts map[string]func(*testing.T)) {
	t.Helper()
	l.step(t, name, func(t *testing.T) {
		for part, run := range parts {
			t.Run(part, func(t *testing.T) {
				t.Parallel()
				l.timed(t, name+": "+part)
				run(t)
			})
		}
	})
}

// timed tells how a part ended and how long it took.
func (l *lab) timed(t *testing.T, name string) {
	start := time.Now()
	t.Cleanup(func() {
		verdict := "passed"
		if t.Failed() {
			verdict = "FAILED"
		}
		l.progress.Say("%s after %.1fs: %s", verdict, time.Since(start).Seconds(), name)
	})
}

// held is a busy connection through the proxy.
type held struct {
	let  io.Closer
	done chan end
}

// end is how a connection has ended: how is "closed" where the other side did it.
type end struct {
	how string
	err error
}

// hold opens a connection and keeps it busy in the background.
func (l *lab) hold(t *testing.T, vm *node.VM, sni string) held {
	t.Helper()
	cmd := vm.Command(t.Context(), l.standin, "hold", proxyIP+":6443", sni)
	let, err := cmd.StdinPipe()
	require.NoError(t, err)
	said, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	require.NoError(t, cmd.Start())
	words := bufio.NewReader(said)
	line, _ := words.ReadString('\n')
	h := held{let, make(chan end, 1)}
	go func() {
		rest, _ := io.ReadAll(words)
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, &complaint)
		}
		h.done <- end{strings.TrimSpace(string(rest)), err}
	}()
	if line != "open\n" {
		require.Fail(t, "no connection to "+sni, "%q, then %v", line, <-h.done)
	}
	return h
}

// ended waits for the connection's end.
func (h held) ended() end { return <-h.done }

// lives says whether the connection has lived until now.
func (h held) lives() error {
	_ = h.let.Close() // it has been closed if the connection has ended
	return h.ended().err
}
