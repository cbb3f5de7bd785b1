// Package reader reads traces: the events of a log joined with the Records kept beside it, in an order that never changes
// once it was read. old.go reconstructs what Turns from before Records were kept have only in their rows.
//
// The log and the Records are two series, each with positions of its own, and a Cursor is a position in both. A page
// merges their next entries. The merge is not kept: it comes out the same from every cursor, because it compares only
// what never changes (a Record's place in the log, times), and because it stops where one of the series may have more
// that it has not read. Nothing is followed or waited for here; a live reader reads again when the Session's bell rings.
package reader

import (
	"context"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

const (
	// mostBytes bounds, roughly, how much of a log one Read takes.
	mostBytes = 1 << 20
	// bytesPerEntry is about how much of the log is read for each entry that is asked for, and leastBytes the least, so
	// that a page costs about what it shows.
	bytesPerEntry = 1 << 10
	leastBytes    = 16 << 10
	// SourceAGUI is the source of entries that are events of the log.
	SourceAGUI store.RecordSource = "agui"
)

// Cursor is a reader's position in a trace, in each of its two series. The zero Cursor is its beginning. Positions of
// Records differ between the trace of a Session and that of a Turn that is not traced, so a Cursor is good for one
// trace.
type Cursor struct {
	Seq  int64 // of the log
	Part int   // entries returned of those that belong to the next event
	Pos  int64 // of the Records
}

// Entry is one event or Record of a trace.
type Entry struct {
	ID      string
	TurnID  string // "" when it belongs to no Turn
	Source  store.RecordSource
	Type    string
	TS      time.Time
	Payload []byte
	At      Cursor // the position behind it

	// seq is of the event that it is, or stands beside; 0 for a Record. It compares with Record.AtSeq in the merge, and is
	// no part of the entry as others see it.
	seq int64
}

// Trace reads everything that is kept of one Session, or of one Turn of it: the events of its Runs, and its Records; of a
// Session also the Records that belong to no Turn. Nothing that is committed later can appear before what was read.
type Trace struct {
	store   store.Store
	in      store.Scope
	session string
	turn    *store.Turn // nil: all of the Session
}

// OfSession is the trace of a Session that the Scope sees.
func OfSession(st store.Store, in store.Scope, sessionID string) *Trace {
	return &Trace{store: st, in: in, session: sessionID}
}

// OfTurn is the trace of a Turn that the Scope sees.
func OfTurn(st store.Store, in store.Scope, turn store.Turn) *Trace {
	return &Trace{store: st, in: in, session: turn.SessionID, turn: &turn}
}

// Read returns up to n entries behind a cursor, oldest first, and none when there is nothing more now. Both series keep
// their own order and are joined by their positions and times.
func (t *Trace) Read(ctx context.Context, at Cursor, n int) ([]Entry, error) {
	if err := t.sequence(ctx); err != nil {
		return nil, err
	}
	for {
		log, moreLog, err := t.log(ctx, at, n)
		if err != nil {
			return nil, err
		}
		records, err := t.records(ctx, at.Pos, n)
		if err != nil || len(log)+len(records) == 0 {
			return nil, err
		}
		entries, next := join(log, moreLog, records, at, n)
		if len(entries) > 0 {
			return entries, nil
		}
		at = next // all of it was without an entry
	}
}

// turnID is "" for the trace of a Session.
func (t *Trace) turnID() string {
	if t.turn == nil {
		return ""
	}
	return t.turn.ID
}

// sequence gives positions to Records that have none. Many writers commit Records out of order, so a position that was
// given at the write could appear below one that was read already; here one reader at a time gives them, under the
// Session's lock.
func (t *Trace) sequence(ctx context.Context) error {
	for {
		some, err := t.store.RecordsUnsequenced(ctx, t.in, t.session, t.turnID())
		if err != nil || !some {
			return err
		}
		err = t.store.InTx(ctx, func(tx store.Tx) error {
			if _, err := tx.LockSession(ctx, t.in, t.session); err != nil {
				return err
			}
			_, err := tx.SequenceRecords(ctx, t.session, store.MaxPageLimit)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// records are the Records behind a position.
func (t *Trace) records(ctx context.Context, after int64, n int) ([]store.PlacedRecord, error) {
	switch {
	case t.turn == nil:
		return t.store.RecordsOfSession(ctx, t.in, t.session, after, n)
	case t.turn.Traced:
		return t.store.PlacedRecordsOfTurn(ctx, t.in, t.turn.ID, after, n)
	}
	all, err := oldTrace(ctx, t.store, t.in, *t.turn)
	all = all[min(int(after), len(all)):]
	return all[:min(n, len(all))], err
}

// join joins the two series until there are n entries. It ends early where a series of which there is more is used up: what
// follows in it may be older than the rest of the other.
func join(log []Entry, moreLog bool, records []store.PlacedRecord, at Cursor, n int) ([]Entry, Cursor) {
	moreRecords := len(records) >= n // as many as were asked for: the next read decides
	var entries []Entry
	for len(entries) < n && len(log)+len(records) > 0 {
		if len(log) == 0 && moreLog || len(records) == 0 && moreRecords {
			break
		}
		if len(log) == 0 || len(records) > 0 && standsBefore(records[0].Record, log[0]) {
			r := records[0]
			records, at.Pos = records[1:], r.Pos
			entries = append(entries, Entry{ID: r.ID, TurnID: r.TurnID, Source: r.Source, Type: r.Type, TS: r.TS, Payload: r.Payload, At: at})
			continue
		}
		e := log[0]
		log, at.Seq, at.Part = log[1:], e.At.Seq, e.At.Part
		e.At = at
		entries = append(entries, e)
	}
	return entries, at
}

// standsBefore reports whether a Record comes before an entry of the log. The Session's owner keeps the Records of a Turn's
// life at a position of the log, which decides; any other Record is joined by time.
func standsBefore(r store.Record, log Entry) bool {
	switch r.Type {
	case trace.RunStarted, trace.AgentInvokeStarted, trace.AgentInvokeDone, trace.RunDone, trace.RunFailed:
		if r.AtSeq >= 0 {
			return r.AtSeq < log.seq
		}
		// From rows: of the same moment, a beginning comes before the event and an end behind it.
		return !r.TS.After(log.TS) && (r.Type == trace.RunStarted || r.Type == trace.AgentInvokeStarted) || r.TS.Before(log.TS)
	case trace.UserInput:
		return !r.TS.After(log.TS)
	}
	return r.TS.Before(log.TS)
}

// log returns up to n entries of the log behind the cursor: each event and, in the trace of a Session, around the Runs of a
// Turn that is not traced, how those began and ended. more is set when the log may have more.
func (t *Trace) log(ctx context.Context, at Cursor, n int) (entries []Entry, more bool, err error) {
	parts := []stretch{{after: at.Seq}}
	if t.turn != nil {
		if parts, err = t.stretches(ctx, at.Seq); err != nil {
			return nil, false, err
		}
	}
	// Bytes, not rows, are what a read of the log costs, and how many events a row holds is not known before.
	left := min(max(n*bytesPerEntry, leastBytes), mostBytes)
	life := &lives{store: t.store, in: t.in, ofSession: t.turn == nil, turns: make(map[string]store.Turn)}
	for _, s := range parts {
		for {
			rows, err := t.store.Events(ctx, t.in, t.session, s.after, left)
			if err != nil {
				return nil, false, err
			}
			if len(rows) == 0 {
				break
			}
			over, err := t.read(ctx, life, rows, s, at, n, &entries)
			if err != nil {
				return nil, false, err
			}
			for _, row := range rows {
				left -= len(row.Data)
			}
			if len(entries) >= n || left <= 0 {
				return entries[:min(n, len(entries))], true, nil
			}
			if s.after = rows[len(rows)-1].LastSeq; over || t.turn == nil {
				break
			}
		}
	}
	return entries, false, nil
}

// stretch is a part of the log: behind a position, up to another one (0: to the end of its Run, or of the log).
type stretch struct {
	after, last int64
	run         *store.Run // whose slice it is; nil in the trace of a Session
}

// stretches are the slices of the Turn's Runs behind a position.
func (t *Trace) stretches(ctx context.Context, after int64) (all []stretch, err error) {
	runs, err := t.store.RunsOfTurn(ctx, t.in, t.turn.ID)
	for i, run := range runs {
		if run.FirstSeq > 0 && (run.LastSeq == 0 || run.LastSeq > after) {
			all = append(all, stretch{after: max(after, run.FirstSeq-1), last: run.LastSeq, run: &runs[i]})
		}
	}
	return all, err
}

// read adds the events of rows that lie in a stretch. over is set when the stretch ends in them. A row may hold events
// of two Runs, and of before the cursor, which are left out one by one. Each entry's At is the position behind it:
// within what stands around one event it is a Part of that event's position, and only the last has the position of the
// event.
func (t *Trace) read(ctx context.Context, life *lives, rows []store.EventRow, s stretch, at Cursor, n int, entries *[]Entry) (over bool, err error) {
	// In the trace of a Session the Runs of the rows are looked up, to know whose each event is; in that of a Turn
	// the stretch is a Run's.
	var runs []store.Run
	if s.run == nil {
		if runs, err = t.store.RunsWithin(ctx, t.in, t.session, s.after+1, rows[len(rows)-1].LastSeq); err != nil {
			return false, err
		}
	}
	for _, row := range rows {
		eventlog.Each([]store.EventRow{row}, func(seq int64, event []byte) bool {
			if seq <= s.after {
				return true
			}
			if over = s.last > 0 && seq > s.last; over {
				return false
			}
			run := s.run
			if run == nil {
				run = runOf(runs, seq)
			}
			var around []Entry
			if around, err = life.around(ctx, run, row, seq, event); err != nil {
				return false
			}
			for i := range around {
				around[i].seq = seq
				if around[i].At = (Cursor{Seq: seq - 1, Part: i + 1}); i == len(around)-1 {
					around[i].At = Cursor{Seq: seq}
				}
			}
			if seq == at.Seq+1 { // the cursor may stand between what is around this event
				around = around[min(at.Part, len(around)-1):]
			}
			*entries = append(*entries, around...)
			// The last of a slice, also where its Run's row, read before, did not show an end yet.
			over = s.run != nil && agui.IsTerminal(event)
			return !over && len(*entries) < n
		})
		if over || err != nil || len(*entries) >= n {
			break
		}
	}
	return over, err
}

// runOf is the Run whose slice holds a position.
func runOf(runs []store.Run, seq int64) *store.Run {
	for i := range runs {
		if runs[i].FirstSeq <= seq && (runs[i].LastSeq == 0 || seq <= runs[i].LastSeq) {
			return &runs[i]
		}
	}
	return nil
}
