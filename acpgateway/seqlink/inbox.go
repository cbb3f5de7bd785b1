// This file is the receiving end: it puts frames in order and drops duplicates.

package seqlink

import (
	"maps"
	"slices"
)

// maxAhead bounds the frames that wait for a missing one. A sender on one connection sends in
// order, so a gap this wide is the sender's fault, and it must reconnect.
const maxAhead = 1024

// Inbox puts the frames of one sender in order. Its user's lock guards it. It keeps an entry for
// every run that it got a frame of; the user bounds them with Has and Len, because a sender can
// invent runs.
type Inbox[F any] struct {
	runs map[string]*stream[F]
}

// stream is the frames of one run.
type stream[F any] struct {
	last   int64       // newest number handed out
	ahead  map[int64]F // frames after a gap
	gaveUp int64       // the missing number the sender was last disconnected for
}

// NewInbox makes an Inbox that expects, for each run, the number after the one given.
func NewInbox[F any](behind map[string]int64) *Inbox[F] {
	in := &Inbox[F]{runs: make(map[string]*stream[F], len(behind))}
	in.Skip(behind)
	return in
}

// Skip moves each run on to its number: the sender has dropped all frames up to it. A run with frames
// that wait for a missing one stays where it is, since moving it would hand them out of order.
func (in *Inbox[F]) Skip(behind map[string]int64) {
	for run, seq := range behind {
		if s := in.stream(run); seq > s.last && len(s.ahead) == 0 {
			s.last = seq
		}
	}
}

func (in *Inbox[F]) stream(run string) *stream[F] {
	s := in.runs[run]
	if s == nil {
		s = &stream[F]{}
		in.runs[run] = s
	}
	return s
}

// Take appends to dst the frames that are in order now that f has arrived: none when f is a
// duplicate or follows a gap, else f and the frames that waited for it. It returns false when too
// many wait: the caller then disconnects, and the sender sends again from the missing frame. If
// the same frame is still missing the next time (its bytes may be no valid frame), it is skipped;
// otherwise sender and receiver would reconnect forever.
func (in *Inbox[F]) Take(dst []F, run string, seq int64, f F) ([]F, bool) {
	s := in.stream(run)
	switch {
	case seq <= s.last:
		return dst, true
	case seq > s.last+1:
		if s.ahead == nil {
			s.ahead = make(map[int64]F)
		}
		s.ahead[seq] = f
		if len(s.ahead) <= maxAhead {
			return dst, true
		}
		if s.gaveUp != s.last+1 {
			s.gaveUp = s.last + 1
			return dst, false
		}
		s.last = slices.Min(slices.Collect(maps.Keys(s.ahead))) - 1
		return s.inOrder(dst), true
	}
	dst, s.last = append(dst, f), seq
	return s.inOrder(dst), true
}

// inOrder appends what follows the last without a gap.
func (s *stream[F]) inOrder(dst []F) []F {
	for {
		next, ok := s.ahead[s.last+1]
		if !ok {
			return dst
		}
		s.last++
		delete(s.ahead, s.last)
		dst = append(dst, next)
	}
}

// Has reports whether a frame of the run has arrived, or NewInbox or Skip named it.
func (in *Inbox[F]) Has(run string) bool { return in.runs[run] != nil }

// Len is the number of runs.
func (in *Inbox[F]) Len() int { return len(in.runs) }

// Last is the number of the newest frame of a run that was handed out.
func (in *Inbox[F]) Last(run string) int64 {
	if s := in.runs[run]; s != nil {
		return s.last
	}
	return 0
}
