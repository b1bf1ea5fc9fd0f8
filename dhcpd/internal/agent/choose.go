package agent

import "github.com/densityops/oooi/dhcpd/internal/agentpb"

// choose picks the snapshot in force out of the file's and the stream's last.
func choose(file, stream *agentpb.Snapshot, connected bool) *agentpb.Snapshot {
	switch {
	case stream == nil:
		return file
	case file == nil || connected:
		return stream
	case file.GetChild().GetUid() != stream.GetChild().GetUid():
		return file
	case file.GetChild().GetGeneration() > stream.GetChild().GetGeneration():
		return file
	}
	return stream
}
