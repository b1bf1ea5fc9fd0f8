package agent

import "github.com/densityops/oooi/corednsplugin/internal/snapshot"

// candidates are the snapshots that are known.
type candidates struct {
	file   *snapshot.Config
	stream *snapshot.Config // the stream's last, also from an earlier life
	// connected is set while the stream is up and has sent a snapshot.
	connected bool
}

// choose says which snapshot counts: while the stream is connected it alone;
// else the higher generation of the same uid, at the same generation the
// stream's last, and the file's where the uid differs.
func choose(c candidates) *snapshot.Config {
	switch {
	case c.stream == nil:
		return c.file
	case c.connected, c.file == nil:
		return c.stream
	case c.file.Child.UID != c.stream.Child.UID:
		return c.file
	case c.file.Child.Generation > c.stream.Child.Generation:
		return c.file
	default:
		return c.stream
	}
}
