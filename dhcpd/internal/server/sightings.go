package server

import (
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// steadyTime is how long what a station says of itself is reported at least.
	steadyTime = time.Minute
	// maxSeen bounds what is remembered of a VLAN where anybody can send
	// anything.
	maxSeen = 16
)

// sightings are what stations were seen to do, by who they are. There is room
// for some; whoever was not seen for longest makes way.
type sightings[K comparable] struct {
	of     map[K]sighting
	missed time.Time // when one last had to make way
}

type sighting struct {
	what        string
	since, last time.Time
}

// note remembers what a station did, and says whether it is a new one. What a
// station says of itself may change with every frame, and is not followed at
// once.
func (s *sightings[K]) note(who K, what string, now time.Time) bool {
	if s.of == nil {
		s.of = map[K]sighting{}
	}
	old, ok := s.of[who]
	if ok && (old.what == what || now.Sub(old.since) < steadyTime) {
		old.last = now
		s.of[who] = old
		return false
	}
	if !ok && len(s.of) >= maxSeen {
		delete(s.of, s.oldest())
		s.missed = now
	}
	s.of[who] = sighting{what: what, since: now, last: now}
	return !ok
}

// keep forgets all others.
func (s *sightings[K]) keep(ok func(who K) bool) {
	maps.DeleteFunc(s.of, func(who K, _ sighting) bool { return !ok(who) })
}

func (s *sightings[K]) oldest() (who K) {
	var at time.Time
	for k, v := range s.of {
		if at.IsZero() || v.last.Before(at) {
			who, at = k, v.last
		}
	}
	return who
}

// more stands for those that had to make way. It sorts behind all others.
const more = "~"

// recent lists what was seen within some time.
func (s *sightings[K]) recent(now time.Time, age time.Duration) []string {
	var out []string
	for k, v := range s.of {
		if now.Sub(v.last) > age {
			delete(s.of, k)
			continue
		}
		out = append(out, v.what)
	}
	if len(out) > 0 && now.Sub(s.missed) <= age {
		out = append(out, more)
	}
	return out
}

// listed joins what was seen, sorted and each once.
func listed(what []string) string {
	slices.Sort(what)
	what = slices.Compact(what)
	if n := len(what); n > 0 && what[n-1] == more {
		what[n-1] = "and more"
	}
	return strings.Join(what, ", ")
}
