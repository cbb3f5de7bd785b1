package bridge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/store"
)

const (
	// traceBytes is about how much of a log one Read takes.
	traceBytes = 1 << 20
	// inputLead is how much older than its Turn a message may be that began it: both ids are made
	// for the same request.
	inputLead = time.Minute
	// SourceAGUI is the source of entries that are events of the log.
	SourceAGUI store.RecordSource = "agui"
)

// TraceCursor is how far a reader of a Session's trace is, in each of its two series.
type TraceCursor struct {
	Seq  int64 // of the log
	Part int   // entries given of those that belong to the next event
	Pos  int64 // of the Records
}

// TraceEntry is one thing that is on record of a Session.
type TraceEntry struct {
	ID      string
	TurnID  string // "" when it belongs to no Turn
	Source  store.RecordSource
	Type    string
	TS      time.Time
	Payload []byte
	At      TraceCursor // behind it
}

// SessionTrace reads everything that is on record of one Session: the events of all its Runs,
// the life of its Turns as their rows have it, and all Records, those of no Turn too. Nothing that is
// committed later can appear before what was read.
type SessionTrace struct {
	s  *Sessions
	in store.Scope
	id string
}

// SessionTrace is the trace of a Session that the Scope sees.
func (s *Sessions) SessionTrace(in store.Scope, sessionID string) *SessionTrace {
	return &SessionTrace{s: s, in: in, id: sessionID}
}

// Read gives up to n entries behind a cursor, oldest first; none when there is nothing more
// now. Both series keep their own order and are joined by time.
func (t *SessionTrace) Read(ctx context.Context, at TraceCursor, n int) ([]TraceEntry, error) {
	if err := t.sequence(ctx); err != nil {
		return nil, err
	}
	for {
		log, moreLog, err := t.log(ctx, at, n)
		if err != nil {
			return nil, err
		}
		records, err := t.s.cfg.Store.RecordsOfSession(ctx, t.in, t.id, at.Pos, n)
		if err != nil || len(log)+len(records) == 0 {
			return nil, err
		}
		entries, next := joinTrace(log, moreLog, records, at, n)
		if len(entries) > 0 {
			return entries, nil
		}
		at = next // all of it was bookkeeping
	}
}

// sequence gives positions to Records that have none.
func (t *SessionTrace) sequence(ctx context.Context) error {
	st := t.s.cfg.Store
	for {
		some, err := st.RecordsUnsequenced(ctx, t.in, t.id)
		if err != nil || !some {
			return err
		}
		err = st.InTx(ctx, func(tx store.Tx) error {
			if _, err := tx.LockSession(ctx, t.in, t.id); err != nil {
				return err
			}
			_, err := tx.SequenceRecords(ctx, t.id, store.MaxPageLimit)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// joinTrace joins the two series until there are n entries or one of a full series is used up,
// behind which more may come that is older than the rest of the other.
func joinTrace(log []TraceEntry, moreLog bool, records []store.PlacedRecord, at TraceCursor, n int) ([]TraceEntry, TraceCursor) {
	moreRecords := len(records) >= n
	var entries []TraceEntry
	for len(entries) < n && len(log)+len(records) > 0 {
		if len(log) == 0 && moreLog || len(records) == 0 && moreRecords {
			break
		}
		if len(log) == 0 || len(records) > 0 && begins(records[0].Record, log[0].TS) {
			r := records[0]
			records, at.Pos = records[1:], r.Pos
			entries = append(entries, TraceEntry{ID: r.ID, TurnID: r.TurnID, Source: r.Source, Type: r.Type, TS: r.TS, Payload: r.Payload, At: at})
			continue
		}
		e := log[0]
		log, at.Seq, at.Part = log[1:], e.At.Seq, e.At.Part
		e.At = at
		entries = append(entries, e)
	}
	return entries, at
}

// begins reports whether a Record stands before what the log has of a time.
func begins(r store.Record, log time.Time) bool { return r.TS.Before(log) }

// log gives up to n entries of the log behind the cursor: each event, before the first of a
// Run how that began, and behind its last how it ended. more says that the log may go on.
func (t *SessionTrace) log(ctx context.Context, at TraceCursor, n int) (entries []TraceEntry, more bool, err error) {
	rows, err := t.s.cfg.Store.Events(ctx, t.in, t.id, at.Seq, traceBytes)
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	runs, err := t.s.cfg.Store.RunsWithin(ctx, t.in, t.id, at.Seq+1, rows[len(rows)-1].LastSeq)
	if err != nil {
		return nil, false, err
	}
	size := 0
	for _, row := range rows {
		size += len(row.Data)
	}
	more = size >= traceBytes
	life := &turnLives{t: t, turns: make(map[string]store.Turn)}
	for _, row := range rows {
		eventlog.Each([]store.EventRow{row}, func(seq int64, event []byte) bool {
			if seq <= at.Seq {
				return true
			}
			var around []TraceEntry
			if around, err = life.around(ctx, runOf(runs, seq), row, seq, event); err != nil {
				return false
			}
			for i := range around {
				if around[i].At = (TraceCursor{Seq: seq - 1, Part: i + 1}); i == len(around)-1 {
					around[i].At = TraceCursor{Seq: seq}
				}
			}
			if seq == at.Seq+1 {
				around = around[min(at.Part, len(around)-1):]
			}
			entries = append(entries, around...)
			return len(entries) < n
		})
		if err != nil || len(entries) >= n {
			break
		}
	}
	if len(entries) >= n {
		entries, more = entries[:n], true
	}
	return entries, more, err
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

// turnLives reads the life of Turns from their rows, to stand beside the events of their Runs.
type turnLives struct {
	t     *SessionTrace
	turns map[string]store.Turn
}

// around is an event with what belongs to it.
func (l *turnLives) around(ctx context.Context, run *store.Run, row store.EventRow, seq int64, event []byte) ([]TraceEntry, error) {
	e := TraceEntry{ID: row.SessionID + ":" + strconv.FormatInt(seq, 10), Source: SourceAGUI, Type: string(agui.TypeOf(event)), TS: row.TS, Payload: event}
	if run == nil {
		return []TraceEntry{e}, nil
	}
	e.TurnID = run.TurnID
	var before, after []store.Record
	var err error
	if seq == run.FirstSeq {
		before, err = l.beginning(ctx, *run)
	}
	if err == nil && seq == run.LastSeq {
		after, err = l.end(ctx, *run)
	}
	entries := make([]TraceEntry, 0, len(before)+1+len(after))
	entries = append(entries, entriesOf(before)...)
	entries = append(entries, e)
	return append(entries, entriesOf(after)...), err
}

func (l *turnLives) turn(ctx context.Context, id string) (store.Turn, error) {
	if turn, ok := l.turns[id]; ok {
		return turn, nil
	}
	turn, err := l.t.s.cfg.Store.Turn(ctx, l.t.in, id)
	l.turns[id] = turn
	return turn, err
}

// beginning is what stands before the first event of a Run; before that of a Turn's first Run
// also who prompted it.
func (l *turnLives) beginning(ctx context.Context, run store.Run) ([]store.Record, error) {
	turn, err := l.turn(ctx, run.TurnID)
	if err != nil {
		return nil, err
	}
	var life []store.Record
	if run.ID == turn.ID {
		messages, err := l.t.s.cfg.Store.Messages(ctx, l.t.in, turn.SessionID, store.Page{After: idAt(turn.CreatedAt.Add(-inputLead)), Limit: store.MaxPageLimit})
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			if m.RunID == turn.ID && !m.Output {
				life = append(life, told(turn, "user_input", m.ID, m.CreatedAt, m.Data))
			}
		}
	}
	for _, r := range lifeOf(turn, []store.Run{run}) {
		if r.Type == "run_started" && run.ID == turn.ID || r.Type == "agent_invoke_started" {
			life = append(life, r)
		}
	}
	return life, nil
}

// end is what stands behind the last event of a Run: the calls of tools since the Run before
// ended, and behind that of a Turn's last Run how the Turn ended.
func (l *turnLives) end(ctx context.Context, run store.Run) ([]store.Record, error) {
	turn, err := l.turn(ctx, run.TurnID)
	if err != nil {
		return nil, err
	}
	runs, err := l.t.s.cfg.Store.RunsOfTurn(ctx, l.t.in, turn.ID)
	if err != nil {
		return nil, err
	}
	calls, err := l.t.s.cfg.Store.ToolCallsOfTurn(ctx, l.t.in, turn.ID)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(runs, func(r store.Run) bool { return r.ID == run.ID })
	last := at == len(runs)-1 && turn.Status.Terminal()
	var since time.Time
	if at > 0 {
		since = runs[at-1].EndedAt
	}
	var life []store.Record
	for _, call := range calls {
		for _, r := range lifeOfCall(turn, call) {
			if r.TS.After(since) && (last || !r.TS.After(run.EndedAt)) {
				life = append(life, r)
			}
		}
	}
	slices.SortStableFunc(life, traceOrder)
	for _, r := range lifeOf(turn, []store.Run{run}) {
		if r.Type == "agent_invoke_done" || last && (r.Type == "run_done" || r.Type == "run_failed") {
			life = append(life, r)
		}
	}
	return life, nil
}

func entriesOf(records []store.Record) []TraceEntry {
	entries := make([]TraceEntry, 0, len(records))
	for _, r := range records {
		entries = append(entries, TraceEntry{ID: r.ID, TurnID: r.TurnID, Source: r.Source, Type: r.Type, TS: r.TS, Payload: r.Payload})
	}
	return entries
}

// idAt sorts before every id of ours that is made at or after a time.
func idAt(t time.Time) string {
	ms := max(t.UnixMilli(), 0)
	return fmt.Sprintf("%08x-%04x-7000-8000-000000000000", ms>>16, ms&0xffff)
}
