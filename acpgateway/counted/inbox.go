package counted

import (
	"maps"
	"slices"
)

// maxAhead is how many frames may wait for one that is missing. A sender on one connection
// sends in order, so a gap this wide is a fault of its, and it must begin again.
const maxAhead = 1024

// Inbox puts the frames of one sender in order. Its user's lock guards it. It remembers every
// run it was given a frame of: its user asks Has, and refuses what the sender made up.
type Inbox[F any] struct {
	runs map[string]*line[F]
}

// line is the frames of one run.
type line[F any] struct {
	last   int64 // taken
	ahead  map[int64]F
	gaveUp int64 // the number a sender was last cut off for
}

// NewInbox begins with what the sender says is behind it.
func NewInbox[F any](behind map[string]int64) *Inbox[F] {
	in := &Inbox[F]{runs: make(map[string]*line[F], len(behind))}
	in.Skip(behind)
	return in
}

// Skip says that nothing up to these numbers will come any more.
func (in *Inbox[F]) Skip(behind map[string]int64) {
	for run, seq := range behind {
		if l := in.line(run); seq > l.last && len(l.ahead) == 0 {
			l.last = seq
		}
	}
}

func (in *Inbox[F]) line(run string) *line[F] {
	l := in.runs[run]
	if l == nil {
		l = &line[F]{}
		in.runs[run] = l
	}
	return l
}

// Take appends to dst what can be handled now that a frame has come: nothing when it came
// before or others are missing, else itself and what waited for it. It is false when too
// much waits: the sender shall begin again with what is missing. One that cannot, because it
// sends what is no frame, does without it the next time.
func (in *Inbox[F]) Take(dst []F, run string, seq int64, f F) ([]F, bool) {
	l := in.line(run)
	switch {
	case seq <= l.last:
		return dst, true
	case seq > l.last+1:
		if l.ahead == nil {
			l.ahead = make(map[int64]F)
		}
		l.ahead[seq] = f
		if len(l.ahead) <= maxAhead {
			return dst, true
		}
		if l.gaveUp != l.last+1 {
			l.gaveUp = l.last + 1
			return dst, false
		}
		l.last = slices.Min(slices.Collect(maps.Keys(l.ahead))) - 1
		return l.due(dst), true
	}
	dst, l.last = append(dst, f), seq
	return l.due(dst), true
}

// due appends what follows the last without a gap.
func (l *line[F]) due(dst []F) []F {
	for {
		next, ok := l.ahead[l.last+1]
		if !ok {
			return dst
		}
		l.last++
		delete(l.ahead, l.last)
		dst = append(dst, next)
	}
}

// Has says whether a run is known here.
func (in *Inbox[F]) Has(run string) bool { return in.runs[run] != nil }

// Len is how many there are.
func (in *Inbox[F]) Len() int { return len(in.runs) }

// Last is the number of the newest frame of a run that was handed out.
func (in *Inbox[F]) Last(run string) int64 {
	if l := in.runs[run]; l != nil {
		return l.last
	}
	return 0
}
