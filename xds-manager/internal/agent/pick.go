package agent

// choice is what pick chooses from.
type choice struct {
	// connected says that the present stream has sent a snapshot.
	connected bool
	// streamed is the last good one of any stream, also of an earlier process.
	streamed *Snapshot
	file     *Snapshot
}

// pick is the one rule which snapshot counts.
func (c choice) pick() *Snapshot {
	switch {
	case c.streamed == nil:
		return c.file
	case c.connected || c.file == nil:
		return c.streamed
	case c.file.UID != c.streamed.UID || c.file.Generation > c.streamed.Generation:
		return c.file
	default:
		return c.streamed
	}
}
