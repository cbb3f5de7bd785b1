package eventlog

import (
	"bytes"
	"context"

	"aqueduct/store"
)

// tailBytes is about how much one Next returns: enough for few writes, little enough
// that a slow reader holds little.
const tailBytes = 256 << 10

// Tail reads one Session's log from a position on, each event once and in order, live.
type Tail struct {
	log     *Log
	in      store.Scope
	session string
	pos     int64
	bell    <-chan struct{}
	stop    func()
}

// Tail starts after the given position. Close must be called. It listens before it reads anything, so that no commit
// falls between a read and the bell.
func (l *Log) Tail(in store.Scope, sessionID string, after int64) *Tail {
	bell, stop := l.cfg.Bell.Listen(sessionID)
	return &Tail{log: l, in: in, session: sessionID, pos: after, bell: bell, stop: stop}
}

// Close releases the Tail.
func (t *Tail) Close() { t.stop() }

// Pos is the position of the last event given.
func (t *Tail) Pos() int64 { return t.pos }

// Bell rings when something about the Session changed, new events included.
func (t *Tail) Bell() <-chan struct{} { return t.bell }

// Next waits for events and returns all that are ready. The first row begins right
// after the position, and no row is missing in between.
func (t *Tail) Next(ctx context.Context) ([]store.EventRow, error) {
	for {
		rows, err := t.Ready(ctx)
		if err != nil || len(rows) > 0 {
			return rows, err
		}
		select {
		case <-t.bell:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Ready is Next without waiting. It is called before the bell is waited for: a ring of before the Tail was made was
// not for it.
func (t *Tail) Ready(ctx context.Context) ([]store.EventRow, error) {
	rows, known := t.log.ring.after(t.session, t.pos)
	if !known {
		var err error
		if rows, err = t.log.cfg.Store.Events(ctx, t.in, t.session, t.pos, tailBytes); err != nil {
			return nil, err
		}
	}
	return t.advance(rows)
}

// advance cuts what lies before the position and moves it, never across a hole.
func (t *Tail) advance(rows []store.EventRow) ([]store.EventRow, error) {
	pos, size := t.pos, 0
	for i, r := range rows {
		if r.FirstSeq() > pos+1 {
			rows = rows[:i]
			break
		}
		if skip := int(pos + 1 - r.FirstSeq()); skip > 0 {
			rows[i] = cutFront(r, skip)
		}
		pos = r.LastSeq
		if size += len(r.Data); size > tailBytes {
			rows = rows[:i+1]
			break
		}
	}
	t.pos = pos
	return rows, nil
}

// cutFront drops the first n events of a row. An event is a line: JSON is encoded without line ends.
func cutFront(r store.EventRow, n int) store.EventRow {
	data := r.Data
	for range n {
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	r.Data, r.N = data, r.N-n
	return r
}

// Each calls fn for every event of the rows with its position, until fn returns false.
func Each(rows []store.EventRow, fn func(seq int64, event []byte) bool) {
	for _, r := range rows {
		data, seq := r.Data, r.FirstSeq()
		for seq <= r.LastSeq {
			event, rest, _ := bytes.Cut(data, []byte{'\n'})
			if !fn(seq, event) {
				return
			}
			data, seq = rest, seq+1
		}
	}
}
