// This file judges when the bytes of a run came. Times count from the request, so that an answer which is held back
// as a whole shows.

package doctor

import (
	"time"
)

const (
	// silent is how long a stream may be silent: the shortest limits of proxies in use are 30 seconds.
	silent = 30 * time.Second
	// slow is how long an answer takes at least before one can see whether it was held back, and heldBack the share of
	// that time in which everything came.
	slow     = time.Second
	heldBack = 0.1
	// fewEvents is how many there are at least: two or three may really come at once.
	fewEvents = 5
)

// timing looks at when events came. Bytes count for silence, comments among them; whole frames for the rest.
func (x *examination) timing(r *Run, frames []frame) {
	var last, longest time.Duration
	for _, c := range r.Chunks {
		longest, last = max(longest, c.At-last), c.At
	}
	longest = max(longest, r.After-last) // a connection that broke in silence, or that was left in it
	if quiet := longestWithoutEvent(r, frames); quiet >= silent {
		x.saw(aSilence)
		if longest >= silent {
			x.findf("no_heartbeat", "nothing came for %s", longest.Round(time.Second))
		}
	}
	if len(frames) < fewEvents {
		return
	}
	first, end := frames[0].at, frames[len(frames)-1].at
	if end < slow {
		return
	}
	x.saw(aSlowAnswer)
	if spread := end - first; float64(spread) < heldBack*float64(end) {
		x.findf("buffered", "the first event came after %s, and %d more within %s", first.Round(time.Millisecond), len(frames)-1, spread.Round(time.Millisecond))
	}
}

// longestWithoutEvent is the longest time in which no event came, whatever else did.
func longestWithoutEvent(r *Run, frames []frame) time.Duration {
	var last, longest time.Duration
	for _, f := range frames {
		longest, last = max(longest, f.at-last), f.at
	}
	return max(longest, r.After-last)
}
