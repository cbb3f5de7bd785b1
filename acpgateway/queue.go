package acpgateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/wake"
)

// queue holds the frames of a channel that no Turn has read yet, in the order in which they arrived, and the numbers up
// to which they were read and acknowledged. The link's goroutine puts frames in, the reader's goroutine takes them out.
//
// The reader stands under the same lock as the frames. Otherwise a Turn could take a frame and detach between put's
// append and its look for a reader, and the bridge would begin a Run for a frame that is already in the log; or a Turn
// could detach between the look and the append, and nothing would wake the bridge for the frame at all.
type queue struct {
	room wake.Signal // frames were taken

	mu     sync.Mutex
	reader *turn // nil between Turns
	frames []frame
	bytes  int
	full   bool  // a frame did not fit; the Turn fails
	came   int64 // frames, counted by this process
	read   int64 // the proxy's number of the newest frame that was taken
	acked  int64 // the proxy's number of the newest frame that is committed
	hints  []hint
}

// frame is one message of a run, or of none, decoded once when it arrives.
// A frame is decoded by the link's goroutine and never again: the queue, the recorder, the channel and the translator
// read the same values, which are not changed.
type frame struct {
	wire.Frame              // nil: it could not be read, but has its number
	update     *wire.Update // of an *wire.ACPUpdate, else nil
	signal     wire.Signal  // of a *wire.ProxyUpdate that can be read, else nil
	run        string       // what it names
	seq        int64        // 0: not counted
	size       int
	at         int64 // its place among all of its channel
}

// newFrame decodes what a message contains. Every later stage reads the decoded value.
func newFrame(f wire.Frame, run string) frame {
	out := frame{Frame: f, run: run}
	switch m := f.(type) {
	case *wire.ACPUpdate:
		u := wire.ReadUpdate(m.Update)
		out.update = &u
	case *wire.ProxyUpdate:
		if s, err := wire.DecodeSignal(m.Content); err == nil {
			out.signal = s
		}
	}
	return out
}

// after is the number that is reached with a frame. A restarted proxy begins its numbers anew.
func (f frame) after(seq int64) int64 {
	if _, ok := f.Frame.(*restarted); ok {
		return 0
	}
	return max(seq, f.seq)
}

// restarted and gap stand in the queue where a proxy was restarted, and where the link of one that does not number its
// frames was cut.
type (
	restarted struct{}
	gap       struct{}
)

// Type implements wire.Frame.
func (*restarted) Type() string { return "restarted" }

// Type implements wire.Frame.
func (*gap) Type() string { return "gap" }

// over reports whether a frame of a size does not fit. The lock is held.
// An empty queue takes a frame of any size, or one that is larger than the bound would never get through.
func (q *queue) over(size int) bool {
	return len(q.frames) >= queueFrames || len(q.frames) > 0 && q.bytes+size > queueBytes
}

// waitForRoom blocks while a frame does not fit because the store stalls. A proxy that does not number its frames has
// no other back pressure than its socket.
//
// A queue that is full although the store works is another matter: then the agent sends faster than the Turn can
// translate, the frame is refused and the Turn fails as overloaded.
func (q *queue) waitForRoom(ctx context.Context, size int, stalled func() bool) {
	for {
		q.mu.Lock()
		over := q.over(size)
		q.mu.Unlock()
		if !over || !stalled() {
			return
		}
		select {
		case <-q.room:
		case <-time.After(time.Second): // the store may have recovered while the queue is still full
		case <-ctx.Done():
			return
		}
	}
}

// put appends a frame. ok is false when it does not fit; wanted is true when no Turn reads and the frame, or the number
// of those that wait, is worth one.
//
// An old proxy's queue without a reader is not left to fill: from silentFrames on even frames that are worth no Turn
// begin one.
func (q *queue) put(f frame, speaks bool, hints *hintFeed) (ok, wanted bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over(f.size) {
		q.full = true
		return false, false
	}
	q.came++
	f.at = q.came
	if h, keep := hints.of(f, q.reader != nil, len(q.hints)); keep {
		q.hints = append(q.hints, h)
	}
	q.frames = append(q.frames, f)
	q.bytes += f.size
	return true, q.reader == nil && (len(q.frames) > silentFrames || speaks)
}

// take gives the reader every frame that waits.
// The number read goes ahead with the taking, not with the commit; acked is what follows the commit.
func (q *queue) take() (frames []frame, full bool) {
	q.mu.Lock()
	frames, full = q.frames, q.full
	q.frames, q.bytes, q.full = nil, 0, false
	for _, f := range frames {
		q.read = f.after(q.read)
	}
	q.mu.Unlock()
	q.room.Ring()
	return frames, full
}

// putBack returns the frames after one to the head of the queue: they belong to the next Turn.
// Between take and putBack the link may have added frames: those that return go before them. Their numbers are unread
// again, or discardStale would acknowledge what no Turn has seen.
func (q *queue) putBack(last frame, frames []frame) {
	i := slices.IndexFunc(frames, func(f frame) bool { return f.at == last.at })
	if i < 0 {
		return
	}
	rest := frames[i+1:]
	q.mu.Lock()
	defer q.mu.Unlock()
	q.frames = append(slices.Clone(rest), q.frames...)
	for _, f := range slices.Backward(rest) {
		q.bytes += f.size
		if f.seq > 0 {
			q.read = f.seq - 1
		}
	}
}

// attach makes a Turn the reader. Frames up to the number it returns came before it.
func (q *queue) attach(t *turn) (came int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reader = t
	return q.came
}

// detach ends a Turn's reading; false when another has taken over.
func (q *queue) detach(t *turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reader != t {
		return false
	}
	q.reader = nil
	return true
}

// turn is the reader, nil between Turns.
func (q *queue) turn() *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reader
}

// isEmpty reports whether no frame waits.
func (q *queue) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.frames) == 0
}

// ack notes what the store has committed, and returns the hints of it. A mark of an earlier start of the proxy carries
// numbers of another sequence: only its place counts.
// Hints are held back until here: a page that watches must not show what a crash could still undo.
func (q *queue) ack(m mark, current bool) []hint {
	q.mu.Lock()
	defer q.mu.Unlock()
	if current {
		q.acked = max(q.acked, m.seq)
	}
	return q.takeHints(m.at)
}

// takeHints removes the hints of what is committed. The lock is held.
func (q *queue) takeHints(at int64) []hint {
	n := 0
	for n < len(q.hints) && q.hints[n].at <= at {
		n++
	}
	committed := q.hints[:n:n]
	q.hints = q.hints[n:]
	return committed
}

// ackedUpTo is the proxy's number of the newest committed frame.
func (q *queue) ackedUpTo() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.acked
}

// restart begins the proxy's numbers anew.
// read stays: the frames of the old numbers that wait are still to be taken, and restarted stands behind them.
func (q *queue) restart() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.acked = 0
}

// discardStale removes the stale frames at the head of the queue, unless a Turn reads or something read before them is
// not committed yet: an ack for a later frame would make the proxy forget that too. n is how many were removed, seq the
// number that is reached with them.
func (q *queue) discardStale() (n int, seq int64, hints []hint) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reader != nil || q.acked < q.read {
		return 0, 0, nil
	}
	for n < len(q.frames) && q.frames[n].stale() {
		q.bytes -= q.frames[n].size
		q.read = q.frames[n].after(q.read)
		n++
	}
	if n == 0 {
		return 0, 0, nil
	}
	hints = q.takeHints(q.frames[n-1].at)
	q.frames, q.acked = slices.Clone(q.frames[n:]), max(q.acked, q.read)
	return n, q.read, hints
}
