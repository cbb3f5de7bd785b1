package proxy

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"aqueduct/acpgateway/acp"
)

const (
	// outboxBytes and outboxFrames bound what waits for the gateway. At the bound agents
	// are not read any more: they wait, nothing is dropped.
	outboxBytes  = 64 << 20
	outboxFrames = 1 << 16
)

// letter is one frame on its way.
type letter struct {
	order int64 // among all
	run   string
	seq   int64 // in its run
	body  []byte
}

// outbox holds every frame until it is written, and for a gateway that acknowledges until
// it has done so.
type outbox struct {
	mu     sync.Mutex
	order  int64
	seqs   map[string]int64
	acked  map[string]int64
	queue  []letter            // not written on this link
	held   map[string][]letter // written, not acknowledged
	keep   bool                // this gateway acknowledges
	up     bool                // a link has been attached
	frames int
	bytes  int
	ready  chan struct{} // one token: queue may have something
	space  chan struct{} // closed when there is room again
}

func newOutbox() *outbox {
	return &outbox{
		seqs: map[string]int64{}, acked: map[string]int64{}, held: map[string][]letter{},
		ready: make(chan struct{}, 1), space: make(chan struct{}),
	}
}

// put adds a frame. It never refuses: who can wait has asked for room before.
func (o *outbox) put(run string, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.order++
	o.seqs[run]++
	o.queue = append(o.queue, letter{o.order, run, o.seqs[run], body})
	o.frames++
	o.bytes += len(body)
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// room waits until the outbox is below its bounds.
func (o *outbox) room(ctx context.Context) {
	for {
		o.mu.Lock()
		full, space := o.frames >= outboxFrames || o.bytes >= outboxBytes, o.space
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

// attach begins a link. What an acknowledging gateway may not have seen is queued again in
// its first order; to another the frames are counted as arrived when they are written.
func (o *outbox) attach(keep bool) {
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
	slices.SortFunc(o.queue, func(a, b letter) int { return cmp.Compare(a.order, b.order) })
	o.wake()
}

func (o *outbox) detach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up = false
}

// take returns the next frame as it shall be written.
func (o *outbox) take() (letter, []byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.up && len(o.queue) > 0 {
		l := o.queue[0]
		o.queue[0] = letter{} // the slice keeps its array; the body must not stay in it
		o.queue = o.queue[1:]
		switch {
		case l.seq <= o.acked[l.run]: // acknowledged on this link before it was sent again
			o.drop([]letter{l})
		case o.keep:
			o.held[l.run] = append(o.held[l.run], l)
			return l, acp.WithSeq(l.body, l.seq), true
		default:
			o.drop([]letter{l})
			return l, l.body, true
		}
	}
	return letter{}, nil, false
}

// putBack returns a frame that could not be written to its place. A held one has its place.
func (o *outbox) putBack(l letter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keep {
		return
	}
	o.queue = slices.Insert(o.queue, 0, l)
	o.frames++
	o.bytes += len(l.body)
}

// ack forgets what has arrived.
func (o *outbox) ack(run string, seq int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seq = min(seq, o.seqs[run]) // a gateway cannot have what was never sent
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

func (o *outbox) drop(letters []letter) {
	for _, l := range letters {
		o.frames--
		o.bytes -= len(l.body)
	}
	if o.frames < outboxFrames && o.bytes < outboxBytes {
		close(o.space)
		o.space = make(chan struct{})
	}
}

// written says whether all that can be written has been: without a link nothing can.
func (o *outbox) written() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) == 0 || !o.up
}
