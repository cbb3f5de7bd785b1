// This file is the sending end: it numbers frames, keeps them until they are acknowledged, and
// queues them again on the next link.

package seqlink

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/wake"
)

const (
	// maxBytes and maxFrames bound what waits for the other end. At the bound, senders that
	// can wait block in Room; no frame is dropped.
	maxBytes  = 64 << 20
	maxFrames = 1 << 16
)

// Envelope is one frame with its numbers.
type Envelope struct {
	order int64 // among all frames of the Outbox
	run   string
	seq   int64 // in its run
	body  []byte
}

// Outbox holds every frame until it is written, and for a peer that acknowledges until the ack
// arrives. Its own lock guards it: any goroutine may Put, one writer per link takes.
type Outbox struct {
	mu     sync.Mutex
	order  int64
	seqs   map[string]int64
	acked  map[string]int64
	queue  []Envelope            // not written on this link
	held   map[string][]Envelope // written, not acknowledged
	keep   bool                  // the other end acknowledges
	up     bool                  // a link has been attached
	frames int
	bytes  int
	ready  wake.Signal   // queue may have something
	space  chan struct{} // closed when there is room again
}

// NewOutbox makes an empty one.
func NewOutbox() *Outbox {
	return &Outbox{
		seqs: map[string]int64{}, acked: map[string]int64{}, held: map[string][]Envelope{},
		ready: wake.New(), space: make(chan struct{}),
	}
}

// Put adds a frame. It never refuses: a sender that can wait calls Room first.
func (o *Outbox) Put(run string, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.order++
	o.seqs[run]++
	o.queue = append(o.queue, Envelope{o.order, run, o.seqs[run], body})
	o.frames++
	o.bytes += len(body)
	o.Wake()
}

// Ready holds a token when there may be something to take.
func (o *Outbox) Ready() <-chan struct{} { return o.ready }

// Wake puts one there.
func (o *Outbox) Wake() { o.ready.Ring() }

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

// Attach begins a link. To a peer that acknowledges, every frame without an ack is queued again in
// its first order; to any other, a frame counts as delivered once it is written.
func (o *Outbox) Attach(keep bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep, o.up = keep, true
	for run, envelopes := range o.held {
		if keep {
			o.queue = append(o.queue, envelopes...)
		} else {
			o.drop(envelopes)
		}
		delete(o.held, run)
	}
	slices.SortFunc(o.queue, func(a, b Envelope) int { return cmp.Compare(a.order, b.order) })
	o.Wake()
}

// Detach ends the link: Take returns nothing until the next Attach.
func (o *Outbox) Detach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up = false
}

// Take returns the next frame and its bytes as they are to be written. A frame whose ack arrived on
// this link before it was sent a second time is skipped: the peer has it.
func (o *Outbox) Take() (Envelope, []byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.up && len(o.queue) > 0 {
		e := o.queue[0]
		o.queue[0] = Envelope{} // the slice keeps its array; the body must not stay in it
		o.queue = o.queue[1:]
		switch {
		case e.seq <= o.acked[e.run]:
			o.drop([]Envelope{e})
		case o.keep:
			o.held[e.run] = append(o.held[e.run], e)
			return e, wire.WithSeq(e.body, e.seq), true
		default:
			o.drop([]Envelope{e})
			return e, e.body, true
		}
	}
	return Envelope{}, nil, false
}

// PutBack returns a frame that could not be written to the head of the queue. With a peer that
// acknowledges there is nothing to do: the frame is among the held ones, and Attach queues it again.
func (o *Outbox) PutBack(e Envelope) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keep {
		return
	}
	o.queue = slices.Insert(o.queue, 0, e)
	o.frames++
	o.bytes += len(e.body)
}

// Ack drops the frames of a run up to seq: the peer has them. A number above the last one sent
// is cut to it, so that a wrong ack cannot swallow frames that are yet to come.
func (o *Outbox) Ack(run string, seq int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seq = min(seq, o.seqs[run])
	if seq <= o.acked[run] {
		return
	}
	o.acked[run] = seq
	envelopes := o.held[run]
	n := 0
	for n < len(envelopes) && envelopes[n].seq <= seq {
		n++
	}
	o.drop(envelopes[:n])
	if n == len(envelopes) {
		delete(o.held, run)
		return
	}
	o.held[run] = slices.Clone(envelopes[n:])
}

func (o *Outbox) drop(envelopes []Envelope) {
	for _, e := range envelopes {
		o.frames--
		o.bytes -= len(e.body)
	}
	if o.frames < maxFrames && o.bytes < maxBytes {
		close(o.space)
		o.space = make(chan struct{})
	}
}

// Written reports whether the queue is empty or cannot be written because there is no link.
func (o *Outbox) Written() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) == 0 || !o.up
}

// Behind is, for each run, the number up to which nothing is held any more: all that is sent
// from now on has a higher one.
func (o *Outbox) Behind() map[string]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	behind := make(map[string]int64, len(o.seqs))
	for run, seq := range o.seqs {
		behind[run] = seq
	}
	lower := func(envelopes []Envelope) {
		for _, e := range envelopes {
			behind[e.run] = min(behind[e.run], e.seq-1)
		}
	}
	lower(o.queue)
	for _, envelopes := range o.held {
		lower(envelopes)
	}
	return behind
}

// Forget drops all frames and starts the numbers again: the peer is a new process, and the
// frames were meant for the one before it.
func (o *Outbox) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(o.queue)
	for _, envelopes := range o.held {
		o.drop(envelopes)
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
