package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

func at(version, uid string, generation int64) *snapshot.Config {
	return &snapshot.Config{Version: version, Child: snapshot.Child{UID: uid, Generation: generation}}
}

// Architecture R2: which snapshot counts.
func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   candidates
		want string
	}{
		{"nothing is known", candidates{}, ""},
		{"only the file", candidates{file: at("file", "a", 1)}, "file"},
		{"only the stream's last, from an earlier life", candidates{stream: at("stream", "a", 1)}, "stream"},
		{"a connected stream alone counts, though the file is newer", candidates{at("file", "a", 9), at("stream", "a", 1), true}, "stream"},
		{"a connected stream alone counts, though the file is another resource's", candidates{at("file", "b", 1), at("stream", "a", 1), true}, "stream"},
		{"without the stream the higher generation: the file's", candidates{at("file", "a", 3), at("stream", "a", 2), false}, "file"},
		{"without the stream the higher generation: the stream's", candidates{at("file", "a", 2), at("stream", "a", 3), false}, "stream"},
		{"at the same generation the stream's last", candidates{at("file", "a", 2), at("stream", "a", 2), false}, "stream"},
		{"another uid is the file's", candidates{at("file", "b", 1), at("stream", "a", 9), false}, "file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := choose(tc.in)
			if tc.want == "" {
				require.Nil(t, got)
				return
			}
			require.Equal(t, tc.want, got.Version)
		})
	}
}
