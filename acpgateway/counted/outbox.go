// Package counted makes a link that may be cut into one that loses and doubles nothing:
// frames are numbered by run, kept until they are acknowledged, sent again on the next link,
// and taken in order, once. Both ends use it, when both have offered to.
package counted

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"aqueduct/acpgateway/acp"
)

const (
	// maxBytes and maxFrames bound what waits for the other end. At the bound who can wait
	// does; nothing is dropped.
	maxBytes  = 64 << 20
	maxFrames = 1 << 16
)

// Letter is one frame on its way.
type Letter struct {
	order int64 // among all
	run   string
	seq   int64 // in its run
	body  []byte
}

// Outbox holds every frame until it is written, and for an end that acknowledges until it
// has done so.
type Outbox struct {
	mu     sync.Mutex
	order  int64
	seqs   map[string]int64
	acked  map[string]int64
	queue  []Letter            // not written on this link
	held   map[string][]Letter // written, not acknowledged
	keep   bool                // the other end acknowledges
	up     bool                // a link has been attached
	frames int
	bytes  int
	ready  chan struct{} // one token: queue may have something
	space  chan struct{} // closed when there is room again
}

// NewOutbox makes an empty one.
func NewOutbox() *Outbox {
	return &Outbox{
		seqs: map[string]int64{}, acked: map[string]int64{}, held: map[string][]Letter{},
		ready: make(chan struct{}, 1), space: make(chan struct{}),
	}
}

// Put adds a frame. It never refuses: who can wait has asked for room before.
func (o *Outbox) Put(run string, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.order++
	o.seqs[run]++
	o.queue = append(o.queue, Letter{o.order, run, o.seqs[run], body})
	o.frames++
	o.bytes += len(body)
	o.Wake()
}

// Ready holds a token when there may be something to take.
func (o *Outbox) Ready() <-chan struct{} { return o.ready }

// Wake puts one there.
func (o *Outbox) Wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// Room waits until the outbox is below its bounds.
func (o *Outbox) Room(ctx context.Context) {
	for {
		o.mu.Lock()
		full, space := o.frames >= maxFrames || o.bytes >= maxBytes, o.space
		o.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-space:
		case <-ctx.Done():
			return
		}
	}
}

// Attach begins a link. What an acknowledging end may not have seen is queued again in its
// first order; for another the frames count as arrived when they are written.
func (o *Outbox) Attach(keep bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep, o.up = keep, true
	for run, letters := range o.held {
		if keep {
			o.queue = append(o.queue, letters...)
		} else {
			o.drop(letters)
		}
		delete(o.held, run)
	}
	slices.SortFunc(o.queue, func(a, b Letter) int { return cmp.Compare(a.order, b.order) })
	o.Wake()
}

// Detach ends it: nothing is taken until the next.
func (o *Outbox) Detach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up = false
}

// Take returns the next frame as it shall be written.
func (o *Outbox) Take() (Letter, []byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.up && len(o.queue) > 0 {
		l := o.queue[0]
		o.queue[0] = Letter{} // the slice keeps its array; the body must not stay in it
		o.queue = o.queue[1:]
		switch {
		case l.seq <= o.acked[l.run]: // acknowledged on this link before it was sent again
			o.drop([]Letter{l})
		case o.keep:
			o.held[l.run] = append(o.held[l.run], l)
			return l, acp.WithSeq(l.body, l.seq), true
		default:
			o.drop([]Letter{l})
			return l, l.body, true
		}
	}
	return Letter{}, nil, false
}

// PutBack returns a frame that could not be written to its place. A held one has its place.
func (o *Outbox) PutBack(l Letter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keep {
		return
	}
	o.queue = slices.Insert(o.queue, 0, l)
	o.frames++
	o.bytes += len(l.body)
}

// Ack forgets what has arrived.
func (o *Outbox) Ack(run string, seq int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seq = min(seq, o.seqs[run]) // nobody can have what was never sent
	if seq <= o.acked[run] {
		return
	}
	o.acked[run] = seq
	letters := o.held[run]
	n := 0
	for n < len(letters) && letters[n].seq <= seq {
		n++
	}
	o.drop(letters[:n])
	if n == len(letters) {
		delete(o.held, run)
		return
	}
	o.held[run] = slices.Clone(letters[n:])
}

func (o *Outbox) drop(letters []Letter) {
	for _, l := range letters {
		o.frames--
		o.bytes -= len(l.body)
	}
	if o.frames < maxFrames && o.bytes < maxBytes {
		close(o.space)
		o.space = make(chan struct{})
	}
}

// Written says whether all that can be written has been: without a link nothing can.
func (o *Outbox) Written() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) == 0 || !o.up
}

// Behind tells for each run the number up to which nothing is held here any more: what is
// sent from now on begins after it.
func (o *Outbox) Behind() map[string]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	behind := make(map[string]int64, len(o.seqs))
	for run, seq := range o.seqs {
		behind[run] = seq
	}
	lower := func(letters []Letter) {
		for _, l := range letters {
			behind[l.run] = min(behind[l.run], l.seq-1)
		}
	}
	lower(o.queue)
	for _, letters := range o.held {
		lower(letters)
	}
	return behind
}

// Forget drops all that waits: the other end has begun anew, and what was meant for the one
// before is not for this one. The numbers begin again.
func (o *Outbox) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(o.queue)
	for _, letters := range o.held {
		o.drop(letters)
	}
	o.queue = nil
	clear(o.held)
	clear(o.seqs)
	clear(o.acked)
}

// Held is how many bytes wait.
func (o *Outbox) Held() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
