package xds

import (
	"fmt"
	"math/rand/v2"
)

// random makes goals that share names, so that versions come, go and return.
type random struct {
	*rand.Rand
	version int
}

func newRandom(seed uint64) *random { return &random{Rand: rand.New(rand.NewPCG(seed, 7))} }

func (r *random) n(max int) int { return r.IntN(max) }

func (r *random) name() string { return fmt.Sprintf("n%d", r.n(6)) }

func (r *random) goal() *goal {
	r.version++
	pick := func() []string {
		var out []string
		for i := range 6 {
			if r.n(3) > 0 {
				out = append(out, fmt.Sprintf("n%d@%d", i, r.n(3)))
			}
		}
		return out
	}
	return pub(fmt.Sprintf("v%d", r.version), pick(), pick(), nil)
}
