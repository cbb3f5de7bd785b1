package eventlog

import (
	"context"
	"sync"
	"time"

	"aqueduct/internal/wake"
	"aqueduct/store"
)

// maxPartBytes is how much one Session may have waiting for a commit. Past it Put
// blocks: the store stalls, so everybody stops reading their upstream.
const maxPartBytes = 1 << 20

// Entry is what a Session keeps in one piece: events, and the row changes and Records
// that belong to them, all in one commit.
type Entry struct {
	Events  []byte // encoded events joined by "\n"
	N       int    // how many
	Moves   []store.Move
	Records []store.Record
	// Cursor is kept on the row of the events; of several that share a row, the newest.
	Cursor string
	// Kept, unless nil, is called by the committer once the Entry is committed, in order,
	// and not at all when it was refused. It must be quick.
	Kept func()
}

// Writer appends to one Session's log. Its owner's goroutine alone uses it.
type Writer struct {
	log       *Log
	sessionID string
	last      int64       // position of the newest event put
	room      wake.Signal // rung when a part was taken

	mu       sync.Mutex
	pending  *part
	inFlight bool  // a part was taken and is not settled
	err      error // set once a part was refused; the Writer is of no use any more
}

// part is what one Writer, one Note or one Keep of a Log hands to one commit. Until it is taken its Writer's lock
// guards it; then the committer has it alone, and what settle writes is read behind done.
type part struct {
	writer  *Writer // nil unless it is a Writer's
	row     store.EventRow
	records []store.Record
	moves   []store.Move
	kept    []func()
	done    chan struct{} // closed when settled; nil until a caller waits
	lost    map[int]bool  // of moves
	err     error
}

// Last is the position of the newest event put.
func (w *Writer) Last() int64 { return w.last }

// Settle waits until every part is committed or refused. It returns the error of a refused part, or ctx's. After ctx's error a
// part may still be in flight, and no other Writer of the Session may be opened.
func (w *Writer) Settle(ctx context.Context) error {
	w.mu.Lock()
	busy, err := w.pending != nil || w.inFlight, w.err
	w.mu.Unlock()
	if !busy {
		return err
	}
	// The committer takes a Writer's parts in order, so when a further one is settled, all before it are.
	_, err = w.Keep(ctx, Entry{})
	return err
}

// Close ends this replica's writing of the Session, for now. Call Settle before.
func (w *Writer) Close() { w.log.ring.unwritten(w.sessionID) }

// Put hands an Entry to the next commit. The events are copied. It blocks while too
// much is waiting for the store.
func (w *Writer) Put(ctx context.Context, e Entry) error {
	_, _, err := w.put(ctx, e, false)
	return err
}

// Keep is Put, then waits for the commit. It tells which of the Entry's Moves were lost,
// or, when the answer of a commit that landed never came, may have been: all of them.
func (w *Writer) Keep(ctx context.Context, e Entry) (lost []int, err error) {
	p, base, err := w.put(ctx, e, true)
	if err != nil {
		return nil, err
	}
	return Submitted{p, base, len(e.Moves)}.Wait(ctx)
}

// Submitted is an Entry on its way into the log.
type Submitted struct {
	part  *part
	base  int // of the Entry's moves in the part's
	moves int
}

// Submit is Keep in two halves: the owner's goroutine goes on, and the caller that has the Entry kept waits for it. The
// commit is not put off, as with Log.Keep: a request waits.
func (w *Writer) Submit(ctx context.Context, e Entry) (Submitted, error) {
	p, base, err := w.put(ctx, e, true)
	if err != nil {
		return Submitted{}, err
	}
	w.log.hurry()
	return Submitted{p, base, len(e.Moves)}, nil
}

// Wait waits for the commit and tells which of the Entry's Moves were lost, as Keep does. Any goroutine may call it.
func (s Submitted) Wait(ctx context.Context) (lost []int, err error) {
	select {
	case <-s.part.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for i := range s.moves {
		if s.part.lost[s.base+i] {
			lost = append(lost, i)
		}
	}
	return lost, s.part.err
}

// put adds an Entry to the pending part, or begins one. base is where the Entry's moves begin among the part's.
// Positions are given here, before the commit, because events refer to them; so a part that is refused ends the Writer.
func (w *Writer) put(ctx context.Context, e Entry, wait bool) (p *part, base int, err error) {
	if err := w.waitForRoom(ctx); err != nil {
		return nil, 0, err
	}
	if err := w.log.stopped(); err != nil {
		return nil, 0, err
	}
	// Before the commit: what others remember of these rows must be gone when they can read them anew.
	if w.log.moved != nil && len(e.Moves) > 0 {
		w.log.moved(w.sessionID, e.Moves)
	}
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return nil, 0, w.err
	}
	p, fresh := w.pending, false
	if p == nil {
		p, fresh = &part{writer: w, row: store.EventRow{SessionID: w.sessionID}}, true
		w.pending = p
	}
	base = len(p.moves)
	p.add(e, &w.last)
	if wait && p.done == nil {
		p.done = make(chan struct{})
	}
	w.mu.Unlock()
	if fresh {
		w.log.markDirty(w)
	}
	return p, base, nil
}

// add appends an Entry; the Writer's lock is held.
func (p *part) add(e Entry, last *int64) {
	before := *last
	if e.N > 0 {
		if p.row.N == 0 {
			p.row.TS = time.Now()
		} else {
			p.row.Data = append(p.row.Data, '\n')
		}
		p.row.Data = append(p.row.Data, e.Events...)
		p.row.N += e.N
		*last += int64(e.N)
		p.row.LastSeq = *last
	}
	if e.Cursor != "" {
		p.row.Cursor = e.Cursor
	}
	if e.Kept != nil {
		p.kept = append(p.kept, e.Kept)
	}
	p.moves = append(p.moves, e.Moves...)
	for _, r := range e.Records {
		if r.AtSeq > before && r.TS.Before(p.row.TS) {
			r.TS = p.row.TS // it stands behind events of this Entry, which got their time just now
		}
		p.records = append(p.records, r)
	}
}

// settle tells the part's fate to those who wait for it.
func (p *part) settle(lost map[int]bool, err error) {
	if err == nil {
		for _, kept := range p.kept {
			kept()
		}
	}
	if p.writer != nil {
		p.writer.settle(p, lost, err)
		return
	}
	p.lost, p.err = lost, err
	if p.done != nil {
		close(p.done)
	}
}

// waitForRoom blocks while the pending part is full. Only the owner's goroutine puts, so there is room still when it
// returns.
func (w *Writer) waitForRoom(ctx context.Context) error {
	for {
		w.mu.Lock()
		full := w.pending != nil && len(w.pending.row.Data) > maxPartBytes
		w.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-w.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takePart hands the pending part to the committer.
func (w *Writer) takePart() *part {
	w.mu.Lock()
	p := w.pending
	w.pending, w.inFlight = nil, p != nil
	w.mu.Unlock()
	w.room.Ring()
	return p
}

// settle ends a part and wakes those who wait for it. A refused part ends the Writer:
// what came after it would stand behind a hole.
func (w *Writer) settle(p *part, lost map[int]bool, err error) {
	var after *part
	w.mu.Lock()
	w.inFlight = false
	if err != nil && w.err == nil {
		w.err = err
		after, w.pending = w.pending, nil
	}
	p.lost, p.err = lost, err
	if p.done != nil {
		close(p.done)
	}
	if after != nil {
		after.err = err
		if after.done != nil {
			close(after.done)
		}
	}
	w.mu.Unlock()
}
