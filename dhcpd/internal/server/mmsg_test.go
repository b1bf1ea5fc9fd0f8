package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hazard 73: a device whose queue stands still costs one wait, not one for each
// of the messages that are due; what does not fit is lost, as on any network.
func TestAQueueThatStandsStillIsWaitedForOnce(t *testing.T) {
	for name, stored := range map[string]bool{"all at once": true, "one by one": false} {
		t.Run(name, func(t *testing.T) {
			ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			require.NoError(t, err)
			t.Cleanup(func() {
				require.NoError(t, unix.Close(ends[0]))
				require.NoError(t, unix.Close(ends[1]))
			})
			const messages = 1000
			b := newBatch(messages)
			for range messages {
				i := b.add(frameSize, false)
				b.msgs[i].hdr.Name, b.msgs[i].hdr.Namelen = nil, 0
			}
			begin := time.Now()
			require.NoError(t, b.flush(ends[0], stored))
			require.Less(t, time.Since(begin), messages/10*drainTime)
			require.Zero(t, b.n, "nothing is kept back")
			n, err := unix.Read(ends[1], make([]byte, frameSize))
			require.NoError(t, err)
			require.Equal(t, frameSize, n, "what fits has left")
		})
	}
}
